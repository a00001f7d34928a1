"""Run the benchmarks whose numbers the papers' figures need, and store them in one small file.

    python benchmarks/papers_measure.py               run those that papers_measured.json lacks
    python benchmarks/papers_measure.py fusion        run some of them again
    python benchmarks/papers_measure.py --log FOLDER  keep trials there, so that a search can resume

`python benchmarks/papers.py` draws figures from the file without measuring. Each benchmark compares
programs in turns and on one core, so that its ratios hold on a busy machine, too; searches are
short. The accelerator's cycles are exact: they are the same on each machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from minitvm.base import host

FILE = Path(__file__).with_name("papers_measured.json")
NOTE = "two cores of a busy machine; all rates of a row were measured in turns, on one core"
OPERATORS = ["C1D", "C3D", "GRP", "DIL", "DEP", "T2D", "CAP", "NRM", "ConvLayer", "TBS"]
NETWORKS = (
    *("resnet18", "resnet50", "resnet3d18", "mobilenet_v1", "mobilenet_v2"),
    *("dcgan", "bert", "lstm", "dqn"),
)
COMMANDS = {
    "predictions": ["predict.py"],
    "fusion": ["fusion.py"],
    "convolutions": ["conv.py", "--quick"],
    "templates": ["ansor_autotvm.py", "C6", "C12", "--trials", "128"],
    "operators": ["ansor_ops.py", *OPERATORS, "--trials", "32"],
    "ablation": [
        *("ablation.py", "full", "random", "no fine-tuning", "beam", "limited space"),
        *("--seeds", "2", "--trials", "24", "--seconds", "300", "--log", "LOG/ablation"),
    ],
    "targets": ["targets.py", "--trials", "32"],
    "programs": [
        *("pretrain.py", "--programs", "24", "--random", "8"),
        *("--seconds", "300", "--log", "LOG/pretrain"),
    ],
    "networks": ["networks.py", "--quick", *NETWORKS],
    "accelerator": ["vta_resnet.py"],
}


def rows_of(command: list[str], log: Path) -> dict[str, Any]:
    """Run a benchmark; return what it writes, its command and how many seconds it took."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        script, *flags = (word.replace("LOG", str(log)) for word in command)
        path = Path(__file__).with_name(script)
        start = time.perf_counter()
        subprocess.run([sys.executable, str(path), *flags, "--json", str(file)], check=True)
        seconds = round(time.perf_counter() - start)
        if not file.exists():
            raise SystemExit(f"{script} is not done: the same command with --log goes on")
        found = json.loads(file.read_text())
    found = {"rows": found} if isinstance(found, list) else found
    kept = {key: value for key, value in found.items() if key not in ("machine", "simulator")}
    return {"command": " ".join(command), "seconds": seconds, **rounded(kept)}


def rounded(value: Any) -> Any:
    """Round all numbers of a JSON value to four digits."""
    match value:
        case dict():
            return {key: rounded(each) for key, each in value.items()}
        case list():
            return [rounded(each) for each in value]
        case float():
            return float(f"{value:.4g}")
        case _:
            return value


def known() -> dict[str, Any]:
    """Return what is stored."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(COMMANDS))
    parser.add_argument("--log", type=Path, help="folder for the trials of searches")
    flags = parser.parse_args()
    if unknown := {*flags.names} - {*COMMANDS}:
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}")
    stored = known()
    with tempfile.TemporaryDirectory() as folder:
        log = flags.log or Path(folder)
        log.mkdir(exist_ok=True)
        for name in flags.names or [n for n in COMMANDS if n not in stored]:
            cpu = {"cpu": host().cpu, "note": NOTE}
            measured = {"machine": cpu, **rows_of(COMMANDS[name], log)}
            stored = known() | {name: measured}  # another process may have stored more since
            lines = [f"{json.dumps(key)}: {json.dumps(each)}" for key, each in stored.items()]
            FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
            print(f"{name}: {stored[name]['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
