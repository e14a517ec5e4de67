"""Dashboard: pages that only draw, over one workspace."""
