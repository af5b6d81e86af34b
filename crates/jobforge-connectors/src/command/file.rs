//! The worker's file of commands, read and checked as a whole when the worker starts.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::{AccessFlags, User, access, geteuid};
use toml::{Table, Value};

use super::argv::Arguments;
use super::environment::{SecretSource, Variables};
use super::fields::{Fields, Problem};
use super::order::{Limits, Namespaces, UserIds};
use super::verdict::ExitCodes;

const MB: u64 = 1024 * 1024;

/// What this worker's commands are.
#[derive(Debug, Clone)]
pub struct CommandFile {
    /// Whether commands run in namespaces of their own.
    pub namespaces: Namespaces,
    /// Where private directories are made.
    pub(super) directory_root: PathBuf,
    /// The commands by their keys, which are job types.
    commands: BTreeMap<String, Arc<Command>>,
}

/// One command: a program and how it runs.
#[derive(Debug)]
pub struct Command {
    pub(super) program: PathBuf,
    pub(super) args: Arguments,
    pub(super) variables: Variables,
    /// A fixed directory; without one each attempt gets its own.
    pub(super) directory: Option<PathBuf>,
    pub(super) stdin: Stdin,
    pub(super) result: ResultFrom,
    pub(super) timeout: Option<Duration>,
    pub(super) grace: Duration,
    pub(super) user: Option<UserIds>,
    pub(super) limits: Limits,
    pub(super) output_bytes: u64,
    pub(super) exit_codes: ExitCodes,
    /// Whether it has directories of its own for temporary files, where commands are kept apart.
    pub(super) private_tmp: bool,
    pub(super) isolation: Isolation,
}

/// Whether a command may run where commands cannot be kept apart from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Isolation {
    Auto,
    Required,
}

/// What the program reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stdin {
    Nothing,
    Payload,
}

/// Where the job's result comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultFrom {
    Nothing,
    LastLine,
}

impl CommandFile {
    /// Reads a file; an error is the list of everything that is wrong with it.
    pub fn load(path: &Path, secrets: &dyn SecretSource) -> Result<CommandFile, Vec<Problem>> {
        let told = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| vec![Problem::new(told, format!("cannot be read: {error}"))])?;
        CommandFile::parse(&text, secrets)
    }

    /// The same for the text of a file.
    pub fn parse(text: &str, secrets: &dyn SecretSource) -> Result<CommandFile, Vec<Problem>> {
        let table: Table =
            text.parse().map_err(|error: toml::de::Error| vec![Problem::new("the file", told(&error))])?;
        let mut problems = Vec::new();
        if !cfg!(target_os = "linux") {
            problems.push(Problem::new("the file", "commands need Linux"));
        }
        let mut fields = Fields::new("", table, &mut problems);
        let choices =
            [("auto", Namespaces::Auto), ("require", Namespaces::Require), ("off", Namespaces::Off)];
        let namespaces = fields.choice("namespaces", &choices).unwrap_or_default();
        let directory_root = directory_root(&mut fields).unwrap_or_else(std::env::temp_dir);
        let mut commands = BTreeMap::new();
        for (key, value) in fields.table("commands").unwrap_or_default() {
            let path = Fields::new("commands", Table::new(), &mut Vec::new()).at(&key);
            if key.is_empty() || key.len() > 255 {
                fields.problems().push(Problem::new(&path, "must have 1 to 255 characters"));
            }
            let Value::Table(table) = value else {
                fields.problems().push(Problem::new(path, "must be a table"));
                continue;
            };
            let mut inner = Fields::new(path, table, fields.problems());
            let command = Command::read(&mut inner, secrets, namespaces);
            inner.end();
            commands.extend(command.map(|command| (key, Arc::new(command))));
        }
        fields.end();
        if problems.is_empty() {
            Ok(CommandFile { namespaces, directory_root, commands })
        } else {
            Err(problems)
        }
    }

    /// The keys of the commands, in their order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.commands.keys().map(String::as_str)
    }

    /// The program of a command.
    pub fn program(&self, key: &str) -> Option<&Path> {
        self.commands.get(key).map(|command| command.program.as_path())
    }

    /// What is allowed and still deserves a second look.
    pub fn warnings(&self) -> Vec<Problem> {
        let as_root = |command: &Command| match command.user {
            Some(user) => user.uid == 0,
            None => geteuid().is_root(),
        };
        let root = self.commands.iter().filter(|(_, command)| as_root(command)).map(|(key, _)| {
            Problem::new(format!("commands.{key:?}"), "runs as root: name a user to drop to")
        });
        root.collect()
    }

    /// How long a worker must let a command that is told to stop have its time.
    pub fn longest_grace(&self) -> Duration {
        self.commands.values().map(|command| command.grace).max().unwrap_or_default()
    }

    pub(super) fn commands(&self) -> impl Iterator<Item = (&String, &Arc<Command>)> {
        self.commands.iter()
    }
}

impl Command {
    fn read(fields: &mut Fields<'_>, secrets: &dyn SecretSource, namespaces: Namespaces) -> Option<Command> {
        let program = program(fields);
        let args = fields.list("args").unwrap_or_default();
        let args = Arguments::read(&fields.at("args"), args, fields.problems());
        let variables = fields.within("env", |env| Variables::read(env, secrets)).unwrap_or_default();
        let directory = directory(fields);
        let stdin = [("none", Stdin::Nothing), ("payload", Stdin::Payload)];
        let stdin = fields.choice("stdin", &stdin).unwrap_or(Stdin::Nothing);
        let result = [("none", ResultFrom::Nothing), ("last_line_json", ResultFrom::LastLine)];
        let result = fields.choice("result", &result).unwrap_or(ResultFrom::Nothing);
        let timeout = fields.whole("timeout_seconds", 1..=604_800).map(Duration::from_secs);
        let grace = Duration::from_secs(fields.whole("grace_seconds", 0..=300).unwrap_or(5));
        let user = user(fields);
        let (limits, output_bytes) = fields
            .within("limits", |limits| read_limits(limits, user))
            .unwrap_or((Limits::default(), OUTPUT_MB * MB));
        let exit_codes = fields.within("exit_codes", ExitCodes::read).unwrap_or_default();
        let (private_tmp, isolation) = read_isolation(fields, namespaces);
        let program = program?;
        Some(Command {
            program,
            args,
            variables,
            directory,
            stdin,
            result,
            timeout,
            grace,
            user,
            limits,
            output_bytes,
            exit_codes,
            private_tmp,
            isolation,
        })
    }
}

/// The most a command prints unless the file says otherwise.
const OUTPUT_MB: u64 = 64;

fn read_limits(fields: &mut Fields<'_>, user: Option<UserIds>) -> (Limits, u64) {
    let limits = Limits {
        memory_bytes: fields.whole("memory_mb", 1..=16_777_216).map(|mb| mb * MB),
        cpu_seconds: fields.whole("cpu_seconds", 1..=604_800),
        open_files: fields.whole("open_files", 4..=1_048_576),
        processes: fields.whole("processes", 1..=1_000_000),
        file_bytes: fields.whole("file_mb", 0..=16_777_216).map(|mb| mb * MB),
    };
    // The kernel counts processes by user, and never those of root.
    if limits.processes.is_some() && user.is_none_or(|user| user.uid == 0) {
        fields.problem("processes", "has no effect without a user to drop to");
    }
    let output = fields.whole("output_mb", 1..=16_777_216).unwrap_or(OUTPUT_MB) * MB;
    (limits, output)
}

fn read_isolation(fields: &mut Fields<'_>, namespaces: Namespaces) -> (bool, Isolation) {
    const TMP: &str = "private_tmp";
    const ISOLATION: &str = "isolation";
    let private_tmp = fields.flag(TMP);
    let choices = [("auto", Isolation::Auto), ("required", Isolation::Required)];
    let isolation = fields.choice(ISOLATION, &choices);
    match namespaces {
        Namespaces::Off if private_tmp.is_some() => {
            fields.problem(TMP, "has no effect while namespaces are off");
        }
        Namespaces::Off if isolation == Some(Isolation::Required) => {
            fields.problem(ISOLATION, "cannot be had while namespaces are off");
        }
        Namespaces::Require if isolation == Some(Isolation::Auto) => {
            fields.problem(ISOLATION, "has no effect while namespaces are required for all commands");
        }
        Namespaces::Auto | Namespaces::Off | Namespaces::Require => {}
    }
    let general = if namespaces == Namespaces::Require { Isolation::Required } else { Isolation::Auto };
    (private_tmp.unwrap_or(true), isolation.unwrap_or(general))
}

/// What the parser says and where; not the line itself, which may have a password in it.
fn told(error: &toml::de::Error) -> String {
    let shown = error.to_string();
    let place = shown.lines().next().and_then(|line| line.strip_prefix("TOML parse error at "));
    let message = error.message();
    place.map_or_else(|| message.to_owned(), |place| format!("{place}: {message}"))
}

fn directory_root(fields: &mut Fields<'_>) -> Option<PathBuf> {
    const NAME: &str = "directory_root";
    let text = fields.text(NAME)?;
    Some(existing_directory(fields, NAME, &text, "must be an absolute path"))
}

fn existing_directory(fields: &mut Fields<'_>, name: &str, text: &str, otherwise: &str) -> PathBuf {
    let path = PathBuf::from(text);
    if !path.is_absolute() {
        fields.problem(name, otherwise);
    } else if !path.is_dir() {
        fields.problem(name, format!("{text} is no directory"));
    }
    path
}

fn program(fields: &mut Fields<'_>) -> Option<PathBuf> {
    const NAME: &str = "program";
    let Some(text) = fields.text(NAME) else {
        fields.problem(NAME, "is missing: the absolute path of a program");
        return None;
    };
    let path = PathBuf::from(&text);
    let fault = match std::fs::metadata(&path) {
        _ if !path.is_absolute() => Some("must be an absolute path".to_owned()),
        Err(error) => Some(format!("{text} cannot be found: {error}")),
        Ok(found) if !found.is_file() => Some(format!("{text} is no file")),
        Ok(found) if found.permissions().mode() & 0o111 == 0 => Some(format!("{text} is not executable")),
        Ok(_) => {
            access(&path, AccessFlags::X_OK).err().map(|error| format!("{text} may not be run: {error}"))
        }
    };
    if let Some(fault) = fault {
        fields.problem(NAME, fault);
        return None;
    }
    Some(path)
}

fn directory(fields: &mut Fields<'_>) -> Option<PathBuf> {
    const NAME: &str = "directory";
    let text = fields.text(NAME)?;
    if text == "private" {
        return None;
    }
    Some(existing_directory(fields, NAME, &text, "must be \"private\" or an absolute path"))
}

fn user(fields: &mut Fields<'_>) -> Option<UserIds> {
    const NAME: &str = "user";
    let name = fields.text(NAME)?;
    if !geteuid().is_root() {
        fields.problem(NAME, "only a worker that is root can drop to another user");
        return None;
    }
    match User::from_name(&name) {
        Ok(Some(user)) => Some(UserIds { uid: user.uid.as_raw(), gid: user.gid.as_raw() }),
        Ok(None) => {
            fields.problem(NAME, format!("there is no user {name}"));
            None
        }
        Err(error) => {
            fields.problem(NAME, format!("cannot look up {name}: {error}"));
            None
        }
    }
}
