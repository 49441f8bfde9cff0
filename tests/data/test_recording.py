import numpy as np
import pytest

from sightline import Recording, StreamError, Tag
from sightline.data.recording import Role

TAGS = (Tag(name="LIT101"), Tag(name="P101", role="actuator"))
VALUES = np.arange(10.0).reshape(5, 2)


def test_a_bare_recording_is_one_normal_run_of_unknown_step():
    recording = Recording(values=VALUES, tags=TAGS)
    assert recording.labels.tolist() == [0] * 5
    assert recording.breaks.tolist() == [0]
    assert recording.step_s is None
    assert recording.channels == ("LIT101", "P101")
    assert recording.n_steps == 5


def test_step_and_breaks_come_from_time():
    recording = Recording(values=VALUES, tags=TAGS, time=[0, 2, 4, 60, 62])
    assert recording.step_s == 2.0
    assert recording.breaks.tolist() == [0, 3]


def test_what_is_given_wins_over_time():
    recording = Recording(
        values=VALUES, tags=TAGS, time=[0, 2, 4, 60, 62], step_s=5, breaks=[1]
    )
    assert recording.step_s == 5.0
    assert recording.breaks.tolist() == [0, 1]


def test_time_that_stands_still_has_no_step():
    recording = Recording(values=VALUES, tags=TAGS, time=[3.0] * 5)
    assert recording.step_s is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"values": VALUES[:, 0]}, "`values` must have shape"),
        ({"tags": TAGS[:1]}, "`tags` must name every channel; got 1 tags for 2"),
        ({"tags": TAGS[:1] * 2}, "`tags` must be unique; 'LIT101' occurs twice"),
        ({"labels": [0, 1]}, "`values` has 5, `labels` has 2"),
        ({"labels": [0, 1, 2, 0, 0]}, "`labels` must be 0, 1, -1; row 2 is 2"),
        ({"time": [0, 1]}, "`values` has 5, `time` has 2"),
        ({"time": [0, 1, np.nan, 3, 4]}, "`time` must be finite; row 2"),
        ({"step_s": 0}, "`step_s` must be positive seconds; got 0"),
        ({"step_s": 1e-79}, "`step_s` must be at least 1e-09 seconds; got 1e-79"),
        ({"step_s": np.inf}, "`step_s` must be positive seconds; got inf"),
        ({"breaks": [5]}, "`breaks` must lie within the 5 rows"),
    ],
)
def test_what_makes_no_recording_is_refused(change, sentence):
    with pytest.raises(StreamError, match=sentence):
        Recording(**({"values": VALUES, "tags": TAGS} | change))


def test_a_role_is_one_of_a_few_words():
    assert Tag(name="P101", role="actuator").role is Role.ACTUATOR
    with pytest.raises(StreamError, match="did you mean 'sensor'"):
        Tag(name="P101", role="senser")
