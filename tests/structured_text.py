"""A small interpreter of IEC 61131-3 structured text, by translation to Python.

It knows what a function block of ours needs: BOOL, INT, DINT and LREAL, arrays of one
dimension, assignments, IF, FOR, the operators, and ABS, MAX and LN. LREAL is a Python
float, which is an IEEE 754 double. Whatever else occurs is an error.
"""

import math
import re

TOKEN = re.compile(
    r"\s*(?:(?P<comment>\(\*.*?\*\))|(?P<number>\d+(?:\.\d+)?(?:E-?\d+)?)"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<sign>:=|<=|>=|<>|\.\.|[-+*/()\[\],;:<>=]))",
    re.DOTALL,
)
WORDS = {"TRUE": "True", "FALSE": "False", "AND": "and", "OR": "or", "NOT": "not"}
FUNCTIONS = {"ABS": "abs", "MAX": "max", "LN": "ln"}
SIGNS = {"<>": "!=", "=": "=="}
KINDS = {"BOOL": "False", "INT": "0", "DINT": "0", "LREAL": "0.0"}
KEYWORDS = {"IF", "THEN", "ELSIF", "ELSE", "END_IF", "FOR", "TO", "BY", "DO", "END_FOR"}


def tokens(text):
    found, place = [], 0
    text = text.rstrip()
    while place < len(text):
        match = TOKEN.match(text, place)
        if match is None:
            raise SyntaxError(text[place : place + 40])
        place = match.end()
        if match.lastgroup != "comment":
            found.append(match[match.lastgroup])
    return found


class Translator:
    """Translates one function block to the body of a Python function."""

    def __init__(self, text):
        self.tokens = tokens(text)
        self.at = 0
        self.variables = {}
        self.inputs, self.constants, self.arrays = set(), set(), {}

    @property
    def next(self):
        return self.tokens[self.at]

    def take(self, *wanted):
        token = self.next
        if wanted and token not in wanted:
            raise SyntaxError(f"{token!r} at {self.tokens[self.at - 5 : self.at + 5]}")
        self.at += 1
        return token

    def block(self):
        self.take("FUNCTION_BLOCK")
        self.name = self.take()
        while self.next in ("VAR_INPUT", "VAR_OUTPUT", "VAR"):
            self.section()
        lines = self.statements({"END_FUNCTION_BLOCK"})
        self.take("END_FUNCTION_BLOCK")
        assert self.at == len(self.tokens)
        return lines

    def section(self):
        kind = self.take()
        is_constant = self.next == "CONSTANT"
        if is_constant:
            self.take()
        while self.next != "END_VAR":
            names = [self.take()]
            while self.next == ",":
                self.take()
                names.append(self.take())
            self.take(":")
            size = None
            if self.next == "ARRAY":
                self.take(), self.take("["), self.take("0"), self.take("..")
                size = int(self.take()) + 1
                self.take("]"), self.take("OF")
            type_ = self.take(*KINDS)
            start = KINDS[type_] if size is None else f"[{KINDS[type_]}] * {size}"
            if self.next == ":=":
                self.take()
                start = self.expression({";"})
                assert size is None or len(eval(start)) == size
            self.take(";")
            for name in names:
                assert name.upper() not in KEYWORDS | set(WORDS) | set(FUNCTIONS)
                assert name.lower() not in self.variables
                self.variables[name.lower()] = start
                self.arrays[name.lower()] = size
                if kind == "VAR_INPUT":
                    self.inputs.add(name.lower())
                if is_constant:
                    self.constants.add(name.lower())
        self.take("END_VAR")

    def expression(self, stops):
        parts = []
        while self.next not in stops:
            token = self.take()
            if token in WORDS:
                parts.append(WORDS[token])
            elif token in FUNCTIONS:
                parts.append(FUNCTIONS[token])
            elif re.match(r"[A-Za-z_]", token):
                assert token.lower() in self.variables, token
                parts.append(f"self.{token.lower()}")
            else:
                parts.append(SIGNS.get(token, token))
        return " ".join(parts)

    def statements(self, stops, indent=1):
        lines, pad = [], "    " * indent
        while self.next not in stops:
            if self.next == "IF":
                lines += self.condition(indent)
            elif self.next == "FOR":
                lines += self.loop(indent)
            else:
                target = self.expression({":="})
                self.take(":=")
                name = re.match(r"self\.(\w+)", target)[1]
                assert name not in self.inputs | self.constants, name
                lines.append(f"{pad}{target} = {self.expression({';'})}")
                self.take(";")
        return lines or [f"{pad}pass"]

    def condition(self, indent):
        pad, lines, word = "    " * indent, [], "if"
        self.take("IF")
        while True:
            lines.append(f"{pad}{word} {self.expression({'THEN'})}:")
            self.take("THEN")
            lines += self.statements({"ELSIF", "ELSE", "END_IF"}, indent + 1)
            if self.next != "ELSIF":
                break
            self.take()
            word = "elif"
        if self.next == "ELSE":
            self.take()
            lines += [f"{pad}else:", *self.statements({"END_IF"}, indent + 1)]
        self.take("END_IF"), self.take(";")
        return lines

    def loop(self, indent):
        pad = "    " * indent
        self.take("FOR")
        index = self.take().lower()
        self.take(":=")
        first = self.expression({"TO"})
        self.take("TO")
        last, by = self.expression({"BY", "DO"}), "1"
        if self.next == "BY":
            self.take()
            by = self.expression({"DO"})
        self.take("DO")
        step = f"({by})"
        head = f"range({first}, ({last}) + (1 if {step} > 0 else -1), {step})"
        lines = [f"{pad}for self.{index} in {head}:"]
        lines += self.statements({"END_FOR"}, indent + 1)
        self.take("END_FOR"), self.take(";")
        return lines


class FunctionBlock:
    """A function block: call it with its inputs, then read its outputs."""

    def __init__(self, text):
        translator = Translator(text)
        body = translator.block()
        self._arrays = {
            name: size for name, size in translator.arrays.items() if size is not None
        }
        for name, start in translator.variables.items():
            setattr(self, name, eval(start))
        self._inputs = translator.inputs
        source = "\n".join(["def step(self):", *body])
        space = {"abs": abs, "max": max, "ln": math.log, "range": range}
        exec(source, space)
        self._step = space["step"]

    def __call__(self, **inputs):
        assert set(inputs) == self._inputs
        for name, value in inputs.items():
            assert name not in self._arrays or len(value) == self._arrays[name]
            setattr(self, name, value)
        self._step(self)
        return self.alarm
