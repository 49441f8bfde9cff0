"""What a reader sees behind each door of a page before anything is opened."""

from html.parser import HTMLParser

from sightline.report.page import DOORS

# Elements without an end, and those whose text nobody reads.
_VOID = {"br", "col", "hr", "img", "input", "link", "meta", "wbr"}
_MARKS = {"term", "nav", "summary", "code"}
_UNREAD = {"script", "style", "template", "noscript", "select", "title"}


class OpenText(HTMLParser):
    """The text of a page that is neither folded nor hidden, and the terms in it.

    `words` of each door, with those that stand on every door (header, folded glossary);
    `terms` are the glossary's keys that a door refers to; `text` is joined by door, and
    `unmarked` is that outside of terms, links to sections and what unfolds.
    """

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[tuple[str, bool, bool]] = []
        self.door: str | None = None
        self.parts: dict[str | None, list[str]] = {None: []}
        self.keys: dict[str | None, set[str]] = {None: set()}
        self.outside: dict[str, list[str]] = {}
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        known = dict(attrs)
        shown = all(one[1] for one in self.stack)
        # Of what is folded only the summary is read.
        is_folded = bool(self.stack) and self.stack[-1][2] and tag != "summary"
        is_shown = not (tag in _UNREAD or "hidden" in known or is_folded)
        if tag == "div" and known.get("class") == "door":
            self.door = known["id"]
            self.parts[self.door], self.keys[self.door] = [], set()
            self.outside[self.door] = []
            self.depth = len(self.stack)
        if shown and is_shown and known.get("data-term"):
            self.keys[self.door].add(known["data-term"])
        if tag not in _VOID:
            kind = "term" if known.get("data-term") else tag
            is_fold = tag == "details" and "open" not in known
            self.stack.append((kind, is_shown, is_fold))

    def handle_endtag(self, tag):
        while self.stack and self.stack.pop()[0] not in (tag, "term"):
            pass
        if self.door is not None and len(self.stack) == self.depth:
            self.door = None

    def handle_data(self, data):
        if all(one[1] for one in self.stack) and not (self.stack and self.stack[-1][2]):
            self.parts[self.door].append(data)
            if self.door and not _MARKS & {kind for kind, *_ in self.stack}:
                self.outside[self.door].append(data)

    def text(self, door: str) -> str:
        """Return what is read behind a door, with what stands on every door."""
        return " ".join(" ".join([*self.parts[None], *self.parts[door]]).split())

    def unmarked(self, door: str) -> str:
        """Return what is read behind a door outside of terms, in small letters."""
        return " ".join(" ".join(self.outside[door]).split()).lower()

    @property
    def words(self) -> dict[str, int]:
        """How many words there are behind each door."""
        return {door: len(self.text(door).split()) for door in DOORS}

    def terms(self, door: str) -> set[str]:
        """Return the terms that are explained behind a door."""
        return self.keys[None] | self.keys[door]
