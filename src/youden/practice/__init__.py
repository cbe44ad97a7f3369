"""Judges and runs week by week: a judge is tried before it is paid, a run grows, is judged again, gates a release."""
