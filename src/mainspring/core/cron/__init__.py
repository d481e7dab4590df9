"""The cron engine: rule V, next and previous fires, time zones. It does what Debian's cron does, without its traps."""

from mainspring.core.cron.expression import Cron
from mainspring.core.cron.fields import CronError

__all__ = ["Cron", "CronError"]
