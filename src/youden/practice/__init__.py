"""Judges and runs week by week: a judge is tried before it is paid, a run grows, is judged again, gates a release.

It knows when to ask whom and what the answers mean for a decision; it refuses to know how a run is planned, judged or fitted.
"""
