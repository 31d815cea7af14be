"""Every command block of the README, as written and in order, in environments that the README itself sets up."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813  (its usual name)
from PIL import Image
from scipy import ndimage

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.S | re.M)
NUMBER = re.compile(r"\d+(\.\d+)?")


def material(folder: Path) -> None:
    """What the README's reader has: two images, landmarks in one file and in two, and two results."""
    folder.mkdir()
    texture = ndimage.gaussian_filter(np.random.default_rng(0).normal(size=(200, 240)), 3)
    gray = (255 * (texture - texture.min()) / np.ptp(texture)).astype(np.uint8)
    Image.fromarray(gray[20:170, 20:210]).save(folder / "he.png")
    Image.fromarray(gray[17:167, 24:214]).save(folder / "ki67.png")  # moved by (-4, 3)
    points = np.random.default_rng(1).uniform(15, 130, (12, 2))
    placed = points + np.array([-4.0, 3.0]) + np.random.default_rng(2).normal(0, 0.5, points.shape)
    for name, header, rows in (
        ("landmarks", "fixed_x,fixed_y,moving_x,moving_y", np.hstack([points, placed])),
        ("he", "x,y", points),
        ("ki67", "x,y", placed),
    ):
        np.savetxt(folder / f"{name}.csv", rows, delimiter=",", header=header, comments="")
    sitk.WriteTransform(sitk.TranslationTransform(2, (-2.0, 1.0)), str(folder / "affine.tfm"))
    sitk.WriteTransform(sitk.TranslationTransform(2, (-4.0, 2.5)), str(folder / "bspline.h5"))


def environment(folder: Path) -> dict[str, str]:
    """No downloads: whatever the blocks install beside warpgauge itself is found in the environment of the tests.

    A new environment sees its packages after its own, by a ``sitecustomize``, so that pip has nothing to fetch.
    """
    folder.mkdir()
    site = sysconfig.get_paths()["purelib"]
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.path.append({site!r})\n")
    # Without uv, which would not see them: make then uses pip.
    path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"])
    kept = {name: os.environ[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS") if name in os.environ}
    return {
        **kept,
        "PATH": path,
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(folder),
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        # A clone that belongs to somebody else may be read, as CI's.
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }


def test_no_block_is_left_out() -> None:
    """Commands are bash blocks and Python is a block, run here; what the demonstration prints is a text block."""
    assert [kind for kind, _ in BLOCKS] == ["bash", "python", "text", "bash"]


def test_every_command_of_the_readme_runs_in_a_fresh_environment(tmp_path: Path) -> None:
    """From the clone to the verdict, one shell, any failure ends it; the demonstration prints what the README shows.

    Numbers of the demonstration may differ from machine to machine, as registrations do; all its words may not.
    """
    if not (ROOT / ".git").exists():
        pytest.skip("the README begins with a clone, and these sources are not in a repository")
    material(tmp_path / "material")
    first, snippet, shown, second = (text for _, text in BLOCKS)
    script = "\n".join([
        "set -euo pipefail",
        f"git clone --quiet {shlex.quote(str(ROOT))} warpgauge",
        "cd warpgauge",
        "cp -r ../material/. .",
        first,
        "echo '#####'",
        f"python - <<'END'\n{snippet}END",
        "echo '#####'",
        second,
        "echo '#####'",
        "warpgauge demo",
    ])  # fmt: skip
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment(tmp_path / "home"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    errors, compared, own, demo = done.stdout.split("#####")
    clone = tmp_path / "warpgauge"
    assert re.search(r"^bspline.h5 +12 ", errors, re.M), errors
    assert "BEST" in compared
    assert (clone / "lesion" / "report" / "report.html").stat().st_size > 10_000
    assert list((clone / "env").rglob("site-packages/warpgauge/_version.py")), "warpgauge is not in the environment"
    assert re.search(r"^BEST +bspline, of 2 methods", own, re.M), own
    words = NUMBER.sub("N", " ".join(demo.split()))
    for line in shown.splitlines():
        start = line.split()[0]
        if start in ("BEST", "ERROR", "BASIS", "Mean"):
            assert NUMBER.sub("N", " ".join(line.split()[:6])) in words, line
