"""What was paid for, kept: raw answers by the key of their request, who asks what, who paid what.

What a store offers, whatever it is kept in: `answers`, `failures` and `since` read; `add` keeps what came of a call and `pay`
what it cost, both on disk after the same `flush`; `paid` reads the books; `claims` are who asks what; `remember_judge`, `judges`,
`remember_served` and `served` say whose answers they are; `close`. Nothing else of the package reads or writes its tables.
"""
