"""``python -m lazyt doctor``, with a summary of what is not well."""

from __future__ import annotations

from bench.gpu.steps.report import EMULATED, Report
from lazyt.runtime import doctor


def main() -> None:
    """All findings; what fails is a failure of the step, but for the emulator's."""
    report = Report("doctor")
    findings = doctor.examine()
    for found in findings:
        print(f"{found.name:12} {found.status:4} {found.detail}")
        if found.advice:
            print(f"{'':12} -> {found.advice}")
        if found.status == "fail" and not EMULATED:
            report.fail(found.name, found.detail)
    report.data["passed"] = sum(found.status == "ok" for found in findings)
    report.put("findings", [vars(found) for found in findings])
    poor = [found.name for found in findings if found.status != "ok"]
    report.end(f"not well: {', '.join(poor)}" if poor else "all is well")


if __name__ == "__main__":
    main()
