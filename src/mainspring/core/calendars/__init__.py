"""Calendars: named sets of dates and hours that let the fires of jobs through, or leave them out."""
