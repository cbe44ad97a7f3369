"""The question that a judge answers: prompts, requests, and how answers are parsed."""
