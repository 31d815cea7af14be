"""The report: one self-contained HTML file with verdict, tables, charts and maps, and a JSON with every number."""

from __future__ import annotations

from warpgauge.report.maps import MethodMaps, method_maps
from warpgauge.report.report import Report, write_project_report, write_report
from warpgauge.report.study_report import write_leaderboard, write_study_report

__all__ = [
    "MethodMaps",
    "Report",
    "method_maps",
    "write_leaderboard",
    "write_project_report",
    "write_report",
    "write_study_report",
]
