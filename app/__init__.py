"""App: the command line, the dashboard and the demo; nothing that a test would want without a screen."""
