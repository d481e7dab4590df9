import contextlib, http.client, json, os, signal, sys, threading, time, typing  # python3 worker.py 127.0.0.1:8620

FUNCTIONS: typing.Any = {"add": lambda _, x, y: x + y, "nap": lambda stop, seconds: stop.wait(seconds)}
OFFER: typing.Any = {"protocol": 2, "name": "plain", "functions": [*FUNCTIONS]}
drain, held, auth = threading.Event(), list[typing.Any](), f"Bearer {os.getenv('MAINSPRING_TOKEN')}"


def call(verb: str, patience: float = 40, pause: float = 0, **body: typing.Any) -> typing.Any:
    while True:  # the same call again, later and later, until it is answered
        time.sleep(pause)
        pause, sent_at, text = min(2 * pause + 0.1, 5), time.monotonic(), json.dumps(body, ensure_ascii=False)
        with contextlib.suppress(OSError, http.client.HTTPException):
            link = http.client.HTTPConnection(sys.argv[1], timeout=patience)
            link.request("POST", f"/api/v1/worker/{verb}", text.encode(), {"Authorization": auth})
            if (answer := link.getresponse()).status < 300:
                return {"sent_at": sent_at, **json.loads(answer.read() or "{}")}
            if answer.status < 500:
                raise ValueError(answer.read())  # it would be refused again


def beat(session: typing.Any) -> None:
    while session["is_live"]:
        time.sleep(session["beat_period_seconds"])
        says = {"answered": session["answered"], "held": [lease["key"] for lease in held]}  # in this order
        told = call("beat", session["beat_period_seconds"], session_id=session["session_id"], **says)
        session |= {"is_live": told["is_session_live"], "sent_at": told["sent_at"]}
        for lease in [*held]:
            if not session["is_live"] or lease["key"] in told["lost"]:
                end(lease)  # nothing will be reported
            elif lease["key"] in told["cancel"]:
                end(lease, outcome="stopped")


def end(lease: typing.Any, **ending: typing.Any) -> None:
    lease["ending"] = ending
    lease["stop"].set()


def report(session: typing.Any, lease: typing.Any, **ending: typing.Any) -> None:
    if ending := lease.get("ending", ending):  # what the function was told while it ran comes first
        call("report", session_id=session["session_id"], reports=[lease["key"] | ending])


def carry_out(session: typing.Any, lease: typing.Any, definition: typing.Any) -> None:
    is_silent = time.monotonic() - session["sent_at"] >= 3 * session["beat_period_seconds"]
    if drain.is_set() or is_silent or not session["is_live"] or lease["is_cancel_requested"]:
        outcome = "stopped" if lease["is_cancel_requested"] else "handed_back"
        return report(session, lease, outcome=outcome, was_started=False)
    late = {"outcome": "failure", "error": "took too long", "is_timeout": True}
    (watch := threading.Timer(definition["timeout_seconds"], end, [lease], late)).start()
    try:
        result = FUNCTIONS[definition["target"]["function"]](lease["stop"], **(lease["payload"] or {}))
        report(session, lease, outcome="success", result=result)
    except BaseException as error:  # noqa: BLE001 - it failed, or its result was refused; the worker goes on
        report(session, lease, outcome="failure", error=ascii(error)[:2000])
    finally:
        watch.cancel()


signal.signal(signal.SIGTERM, lambda *_: drain.set())
while not drain.is_set():
    session = {"is_live": True, "answered": 0, **call("register", **OFFER)}
    threading.Thread(target=beat, args=[session], daemon=True).start()
    while session["is_live"] and not drain.is_set():
        me, number = session["session_id"], session["answered"] + 1
        told = call("claim", session_id=me, number=number, limit=1, wait_seconds=5, is_idle=True)
        for lease in told["leases"]:  # held: not yet reported
            held += [lease | {"key": {k: lease[k] for k in ("run_id", "token")}, "stop": threading.Event()}]
        session |= {"answered": number, "is_live": told["is_session_live"]}
        for lease, kept in zip([*held], told["definitions"], strict=True):
            carry_out(session, lease, kept["definition"])
            held.clear()
    call("leave", session_id=session["session_id"])
