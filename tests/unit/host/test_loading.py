"""`MODULE:APP`: what is found, and what is said when it is not."""

from pathlib import Path

import pytest

from mainspring.errors import InvalidInput
from mainspring.host.loading import load_app


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_an_app_in_the_current_folder(folder: Path) -> None:
    (folder / "good_one.py").write_text(
        "from mainspring import App\napp = App()\nclass Box:\n    inner = app\n"
    )
    assert load_app("good_one:app") is load_app("good_one") is load_app("good_one:Box.inner")


@pytest.mark.parametrize(
    ("text", "reference", "said"),
    [
        ("", "bad_1.py", "write bad_1:app"),
        ("", "bad 1:app", "module:app"),
        ("", ":app", "module:app"),
        ("", "bad_absent:app", "no module 'bad_absent'"),
        ("x = 1", "bad_2:app", "has no 'app'"),
        ("app = 1", "bad_3:app", "is of the type int, and not a mainspring.App"),
        ("\n1/0", "bad_4:app", "bad_4.py, line 2, raises ZeroDivisionError"),
        ("import json\n\njson.loads('x')", "bad_10:app", "bad_10.py, line 3, raises JSONDecodeError"),
        ("\nimport absent_library", "bad_5:app", "bad_5.py, line 2, needs 'absent_library'"),
        ("\n\ndef f(:", "bad_6:app", "bad_6.py, line 3, raises SyntaxError"),
        (
            "from mainspring import App\napp = App()\n@app.job(cron='x')\ndef f(): ...",
            "bad_7:app",
            "bad_7.py, line 3: cron: ",
        ),
        (
            "from mainspring import App\napp = App()\n\n@app.job(\n  crom='1 * * * *',\n)\ndef f(): ...",
            "bad_8:app",
            "bad_8.py, line 4: crom: there is no such field; did you mean 'cron'?",
        ),
        (
            "from mainspring import App\napp = App()\n@app.job()\ndef f(): ...\nf.options(delay='1x')",
            "bad_9:app",
            "bad_9.py, line 5: delay: ",
        ),
    ],
)
def test_what_is_wrong_is_said(folder: Path, text: str, reference: str, said: str) -> None:
    name = reference.partition(":")[0].removesuffix(".py")
    if name.isidentifier() and name != "bad_absent":
        (folder / f"{name}.py").write_text(text)
    with pytest.raises(InvalidInput) as caught:
        load_app(reference)
    assert said in str(caught.value)
