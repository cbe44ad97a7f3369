"""Providers: one file per provider with its `RECORD`, and with its class if it has another wire format than OpenAI."""
