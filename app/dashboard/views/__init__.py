"""One file per page, each with `render()`; pages read through `cached_reads` and only draw."""
