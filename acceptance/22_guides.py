"""Every example in README, guides and error pages is run, as it stands, on a live `jobforge dev`.

What a block's first line says decides what becomes of it; a block that says nothing, or something that nothing runs, ends the story:

    ```sh                  run by bash in the guide's own directory, all blocks of a guide as one script
    ```sql LOGIN           run by psql as app, operator or superuser
    ```toml                read by `jobforge config show`, or by `jobforge commands check` where it is a file of commands
    ```json NAME.json      written to that file beside the scripts, which use it; USED says where nothing of the guide does
    ```json connector.X    a payload: the job is enqueued and must succeed
    ```json result-of-N    what the guide's Nth payload must have answered
    ```rust                compiled by the doc tests of the crate that includes the document
    ```python, ```js       run with what STAGE puts around them
    ```text                something to look at; nothing to run
"""

import json
import re
import subprocess

import guides_stage as stage
from world import APP, JOBFORGE, OPERATOR, ROOT, TENANT, Failed, check, figure, tell

DOCUMENTS = ["README.md", *sorted(str(path.relative_to(ROOT)) for part in ("guides", "errors") for path in (ROOT / "docs" / part).glob("*.md"))]


class Block:
    """A fenced block of a document."""

    def __init__(self, document, number, line, text):
        self.document, self.number, self.text = document, number, text
        self.language, *self.words = re.split(r"[ ,]+", line.strip()) if line.strip() else [""]

    def __str__(self):
        return f"{self.document}, block {self.number}"

    @property
    def word(self):
        return self.words[0] if self.words else ""

    @property
    def exempt(self):
        return any(document == self.document and begin in self.text for document, begin, _ in stage.EXEMPT)


def guides(world):
    everything = {document: read(document) for document in DOCUMENTS}
    for document, begin, _ in stage.EXEMPT:
        check(f"what is exempt is there: {document}", any(begin in block.text for block in everything[document]))
    world.dev("--no-demo")
    runs = 0
    for document, blocks in everything.items():
        blocks = [block for block in blocks if not block.exempt]
        if blocks:
            runs += Walk(world, document).all(blocks)
    figure("examples that ran", runs)
    check("most documents with examples have some that ran", runs > 50, runs)


def read(document):
    """The blocks of a document; a fence that is left open is an error of the document."""
    text = (ROOT / document).read_text()
    fences = re.findall(r"^[ >]*```", text, re.M)
    if len(fences) % 2:
        raise Failed(f"{document}: a fence is left open")
    found = re.findall(r"^```([^\n`]*)\n(.*?)^```$", text, re.M | re.S)
    if len(found) * 2 != len(fences):
        raise Failed(f"{document}: a block is indented, which hides it from this story")
    return [Block(document, number, line, body) for number, (line, body) in enumerate(found, 1)]


class Walk:
    """One document and the directory it is walked in, as a reader has it beside a development server."""

    def __init__(self, world, document):
        self.world, self.document, self.name = world, document, document.split("/")[-1]
        self.dir = world.dir / self.name
        (self.dir / "target/release").mkdir(parents=True)
        (self.dir / ".jobforge").symlink_to(world.dir / "data")
        (self.dir / "target/release/jobforge").symlink_to(JOBFORGE)
        bin_dir = world.dir / "bin"
        bin_dir.mkdir(exist_ok=True)
        if not (bin_dir / "jobforge").exists():
            (bin_dir / "jobforge").symlink_to(JOBFORGE)
        self.results = []
        self.dev = json.loads((world.dir / "data/dev.json").read_text())

    def all(self, blocks):
        ran = 0
        for kind, run in (("json", self.json), ("toml", self.toml), ("sql", self.sql), ("rust", self.rust), ("python", self.python), ("js", self.js)):
            for block in (block for block in blocks if block.language == kind):
                run(block)
                ran += 1
            if kind == "toml":
                ran += self.shell([block for block in blocks if block.language == "sh"])
        known = ("sh", "sql", "toml", "json", "rust", "python", "js", "text")
        for block in blocks:
            if block.language not in known:
                raise Failed(f"{block}: nothing runs what says {block.language or 'nothing'!r}: {block.text.splitlines()[0]}")
        figure(f"{self.document}: examples that ran", ran)
        return ran

    def shell(self, blocks):
        """All blocks as one script: what one sets, the next has. The first command that fails ends the story."""
        if not blocks:
            return 0
        before, after = stage.AROUND.get(self.name, ("", ""))
        text = self.fitted("\n".join(block.text for block in blocks))
        self.bash("\n".join([stage.PRELUDE, before, text, after, "finish"]), self.document)
        return len(blocks)

    def bash(self, script, what):
        keys = self.dev["keys"]
        own = self.world.environment(
            JF=self.dev["url"], TENANT=TENANT, KEY=keys[stage.KEYS.get(self.name, "tenant")], TENANT_KEY=keys["tenant"],
            WORLD=str(self.world.dir))
        own["PATH"] = f"{self.world.dir / 'bin'}:{own['PATH']}"
        done = subprocess.run(["bash", "-c", script], cwd=self.dir, env=own, capture_output=True, text=True, timeout=180)
        if done.returncode != 0:
            raise Failed(f"{what} ended with {done.returncode}: {done.stdout[-1500:]}\n{done.stderr[-1500:]}")
        return done.stdout

    def sql(self, block):
        logins = {"app": self.world.url(APP), "operator": self.world.url(OPERATOR), "superuser": self.world.superuser()}
        if block.word not in logins:
            raise Failed(f"{block}: says not as whom: sql {'|'.join(logins)}")
        for statement in stage.BEFORE_SQL.get(self.name, []):
            self.psql(logins["superuser"], statement, block)
        self.psql(logins[block.word], self.fitted(block.text), block)

    def psql(self, url, text, block):
        done = subprocess.run(
            [self.world.psql_program(), "-X", "-v", "ON_ERROR_STOP=1", "-v", f"tenant={TENANT}", "-f", "-", url],
            env=self.world.environment(), input=text, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise Failed(f"{block}: {done.stderr.strip()}")

    def toml(self, block):
        place = self.dir / f"toml-{block.number}"
        place.mkdir()
        commands = re.search(r"^\[commands", block.text, re.M)
        file = self.dir / "commands.toml" if commands else place / "jobforge.toml"
        file.write_text(self.fitted(block.text))
        arguments = ["commands", "check", "--file", file] if commands else ["config", "show", "--json"]
        done = subprocess.run([JOBFORGE, *map(str, arguments)], cwd=place, env=self.world.environment(), capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise Failed(f"{block}: {done.stdout.strip()} {done.stderr.strip()}")
        if not commands and '"jobforge.toml"' not in done.stdout:
            raise Failed(f"{block}: sets nothing")

    def json(self, block):
        try:
            value = json.loads(block.text)
        except json.JSONDecodeError as error:
            raise Failed(f"{block}: is no JSON: {error}") from error
        if block.word.endswith(".json"):
            (self.dir / block.word).write_text(block.text)
            used = stage.USED.get((self.name, block.word))
            if used:
                self.bash("\n".join([stage.PRELUDE, used]), f"{block} ({used})")
            elif block.word not in "".join(other.text for other in read(self.document) if other.language == "sh"):
                raise Failed(f"{block}: nothing uses {block.word}")
        elif block.word.startswith("connector."):
            # The text as it stands: 1.10 is not 1.1.
            job = self.world.answer("enqueue", block.word, "--payload", block.text)["id"]
            self.results.append(self.world.job_that_is("succeeded", job)["job"]["result"])
        elif block.word.startswith("result-of-"):
            answered = self.results[int(block.word.removeprefix("result-of-")) - 1]
            check(f"{self.name}: the result is the one that is shown", answered == value, answered)
        else:
            raise Failed(f"{block}: says not what it is for: a file's name, a connector, result-of-N")

    def rust(self, block):
        """By the doc tests, where a crate includes the document; an ignored block is compiled by nobody."""
        included = [path for path in ROOT.glob("crates/*/src/lib.rs") if f"/{self.document}\")]" in path.read_text()]
        if not included or "ignore" in block.words or "text" in block.words:
            raise Failed(f"{block}: no crate compiles it")

    def python(self, block):
        stage.python(self.name, block.text)

    def js(self, block):
        place = self.dir / "js"
        place.mkdir()
        if not stage.node_modules().exists():
            raise Failed(f"{block}: its package is not installed: scripts/setup test")
        (place / "node_modules").symlink_to(stage.node_modules())
        (place / "run.mjs").write_text(stage.js(self.name, block.text))
        done = subprocess.run(["node", place / "run.mjs"], capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise Failed(f"{block}: {done.stderr[-800:]}")

    def fitted(self, text):
        """What stands for a reader's own things, or is not on every machine, replaced."""
        for old, new in [("<tenant id>", TENANT), ("<job id>", "01900000-0000-7000-8000-000000000000"), *stage.fitting(self.name, self.dir)]:
            text = text.replace(old, new)
        return text


if __name__ == "__main__":
    tell(guides)
