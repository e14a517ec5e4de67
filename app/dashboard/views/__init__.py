"""Views: one file per page, each with `render()`; they only draw."""
