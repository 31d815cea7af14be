"""The report: one self-contained HTML file with verdict, tables, charts and maps, and a JSON with every number."""

from __future__ import annotations

from warpgauge.report.leaderboard import write_leaderboard
from warpgauge.report.map_section import MethodMaps, method_maps
from warpgauge.report.report import Report
from warpgauge.report.study_report import write_study_report
from warpgauge.report.writer import write_project_report, write_report

__all__ = [
    "MethodMaps",
    "Report",
    "method_maps",
    "write_leaderboard",
    "write_project_report",
    "write_report",
    "write_study_report",
]
