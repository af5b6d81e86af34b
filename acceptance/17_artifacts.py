"""5 MB through an S3 bucket and back, altered objects refused with their reason, and a bucket that is empty when jobs are gone.

Time passes by the database's clock alone, and the superuser of a private Postgres may replace it.
"""

import hashlib
import json
import re

from servers import S3
from world import check, end, figure, tell, wait_until

SIZE = 5_000_000


def artifacts(world):
    bucket = S3(world)
    settings = {"JOBFORGE_ARTIFACTS__URL": f"s3://{S3.BUCKET}/some/prefix", "JOBFORGE_ARTIFACTS__ENDPOINT": bucket.endpoint,
                "JOBFORGE_ARTIFACTS__ACCESS_KEY_ID": "id", "JOBFORGE_ARTIFACTS__SECRET_ACCESS_KEY": "secret"}
    dev = world.dev("--no-demo", **settings)
    round_trip(world, bucket, settings)
    altered(world, bucket, settings)
    pruned(world, bucket, dev, settings)


def objects(bucket):
    """The keys in the bucket."""
    return re.findall(r"<Key>([^<]+)</Key>", bucket.request("GET", "?list-type=2").decode())


def large(word):
    """About 5 MB that no compression and no other content shares."""
    line = hashlib.sha256(word.encode()).hexdigest()
    return {"lines": [f"{n:08} {line}" for n in range(SIZE // (len(line) + 13))]}


def enqueue(world, payload, settings):
    (world.dir / "large.json").write_text(json.dumps(payload))
    return world.answer("enqueue", "demo.echo", "--payload", "@large.json", **settings)["id"]


def round_trip(world, bucket, settings):
    payload = large("first")
    job = enqueue(world, payload, settings)
    told = world.job_that_is("succeeded", job)["job"]
    size = told["payload"]["$artifact"]["bytes"]
    row = world.value(world.superuser(), f"select pg_column_size(payload) + pg_column_size(result) from jobforge.job_history "
                      f"where id = '{job}'")
    check("bytes of the payload; of payload and result in the row", size > 0.9 * SIZE and int(row) < 1000, f"{size}; {row}")
    # The handler echoes: payload and result are one content, which is stored once.
    check("objects in the bucket", len(objects(bucket)) == 1, len(objects(bucket)))
    world.answer("jobs", "result", job, "--out", "result.json", **settings)
    check("the result is the payload", json.loads((world.dir / "result.json").read_text()) == payload)
    stored = bucket.request("GET", f"/{objects(bucket)[0]}")
    check("the object's name is its content's", hashlib.sha256(stored).hexdigest() == objects(bucket)[0].rsplit("/", 1)[1])
    words = world.jobforge("jobs", "show", job).stdout
    check("jobs show tells where it is", f"{size} bytes in the artifact store" in words)


def altered(world, bucket, settings):
    """Objects that are damaged or gone between the enqueue and the run."""
    for word, reason in (("second", "artifact_altered"), ("third", "artifact_missing")):
        before = set(objects(bucket))
        world.answer("pause", "definition", "demo.echo")
        job = enqueue(world, large(word), settings)
        key, = set(objects(bucket)) - before
        content = bucket.request("GET", f"/{key}")
        if reason == "artifact_altered":
            bucket.request("PUT", f"/{key}", content[:-100] + b"x" + content[-99:])
        else:
            bucket.request("DELETE", f"/{key}")
        world.answer("resume", "definition", "demo.echo")
        told = world.job_that_is("failed", job)
        check(f"{reason}: attempts, error", reason in told["job"]["error"] and len(told["attempts"]) == 1,
              f"1, {told['job']['error'][:60]}…")
        check("    and no result", told["job"]["result"] is None)
        bucket.request("PUT", f"/{key}", content)
        world.answer("jobs", "retry", job)
        world.job_that_is("succeeded", job)
        check("    once the object is back it succeeds when it is retried", True)


def pruned(world, bucket, dev, settings):
    """Four days pass at once; the scheduler then does what is due when it starts, and what follows from it each minute."""
    admin, kept = world.superuser(), objects(bucket)
    holds = "select count(*) from jobforge.job_artifacts"
    figure("objects, holds of jobs on them", f"{len(kept)}, {world.value(admin, holds)}")
    world.sql(admin, "create or replace function jobforge.clock() returns timestamptz language sql volatile "
              "as $$ select clock_timestamp() + interval '4 days' $$")
    end(dev)
    check("when the time has passed, before anybody looks: objects", objects(bucket) == kept, len(kept))
    world.dev("--no-demo", name="dev-later", **settings)
    jobs = "select count(*) from jobforge.job_history where type = 'demo.echo'"
    wait_until("their jobs are pruned", lambda: world.value(admin, jobs) == "0", seconds=150, every=1)
    check("jobs left when their class's time is over", True, 0)
    wait_until("the scheduler has deleted their objects", lambda: not objects(bucket), seconds=200, every=1)
    check("objects left in the bucket", True, f"0 of {len(kept)}")
    left = "select (select count(*) from jobforge.artifacts) + (select count(*) from jobforge.job_artifacts)"
    wait_until("the database has forgotten them", lambda: world.value(admin, left) == "0", seconds=30)
    check("rows left about them", True, 0)


if __name__ == "__main__":
    tell(artifacts)
