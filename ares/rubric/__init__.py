"""Rubric: criteria, verdicts, and how verdicts become a grade."""
