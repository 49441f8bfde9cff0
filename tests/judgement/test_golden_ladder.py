import json

import golden_ladder


def test_without_slop_the_old_rungs_give_the_old_figures_to_the_bit():
    stream = golden_ladder.golden_stream(label_slop_s=0)
    known = json.loads(golden_ladder.PATH.read_text())
    assert json.loads(json.dumps(golden_ladder.figures(stream))) == known


def test_the_papers_figures_do_not_look_at_slop():
    known = json.loads(golden_ladder.PATH.read_text())
    found = golden_ladder.figures(golden_ladder.golden_stream())
    assert [one["figures"] for one in found] == [one["figures"] for one in known]
    assert [one["ladder"] for one in found] != [one["ladder"] for one in known]
