"""The server process: pages, media and access control."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares_app.server.asgi import (
        ServedPages as ServedPages,
        serve as serve,
        start_background_dashboard as start_background_dashboard,
    )
    from ares_app.server.command_words import (
        PLAN as PLAN,
        describe_plan as describe_plan,
        make_annotate_words as make_annotate_words,
        make_check_words as make_check_words,
        make_export_words as make_export_words,
        make_ingest_words as make_ingest_words,
        make_option as make_option,
        resume_job as resume_job,
    )
    from ares_app.server.jobs import (
        Job as Job,
        find_job_path as find_job_path,
        last_lines_of as last_lines_of,
        list_all_jobs as list_all_jobs,
        start_command as start_command,
        stop_job as stop_job,
    )
    from ares_app.server.message_order import (
        CONNECTION_HEADER as CONNECTION_HEADER,
        release_next_message as release_next_message,
    )
    from ares_app.server.protection import (
        PERSON_HEADER as PERSON_HEADER,
        check_person_name as check_person_name,
    )
    from ares_app.server.routes import UNKNOWN_PAGE as UNKNOWN_PAGE

__getattr__ = lazy_exports(__name__)
