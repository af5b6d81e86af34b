//! The file of commands: every problem is told with its path, before anything runs.

use std::path::Path;

use jobforge_connectors::command::{CommandFile, Namespaces, WorkerEnvironment};

use super::is_root;

fn problems(text: &str) -> Vec<String> {
    let found = CommandFile::parse(text, &WorkerEnvironment).err().unwrap_or_default();
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn the_example_is_sound() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/commands.toml");
    let file =
        CommandFile::load(&path, &WorkerEnvironment).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(file.keys().collect::<Vec<_>>(), ["demo.date", "demo.print", "demo.wc"]);
    assert_eq!(
        (file.namespaces, file.program("demo.wc")),
        (Namespaces::Auto, Some(Path::new("/usr/bin/wc")))
    );
}

#[test]
fn each_thing_wrong_is_refused_with_its_path() {
    let with = |field: &str| format!("[commands.\"a.b\"]\nprogram = \"/bin/sh\"\n{field}");
    let cases = vec![
        ("namespace = \"off\"".to_owned(), "namespace: is not known"),
        ("namespaces = \"maybe\"".into(), "namespaces: must be one of \"auto\", \"require\", \"off\""),
        ("directory_root = \"here\"".into(), "directory_root: must be an absolute path"),
        ("directory_root = \"/no/such\"".into(), "directory_root: /no/such is no directory"),
        ("commands = 3".into(), "commands: must be a table"),
        ("[commands]\n\"a.b\" = 3".into(), "commands.\"a.b\": must be a table"),
        ("[commands.x]\n".into(), "commands.x.program: is missing: the absolute path of a program"),
        ("[commands.x]\nprogram = \"sh\"".into(), "commands.x.program: must be an absolute path"),
        (
            "[commands.x]\nprogram = \"/no/such\"".into(),
            "commands.x.program: /no/such cannot be found: No such file",
        ),
        (
            "[commands.x]\nprogram = \"/etc/passwd\"".into(),
            "commands.x.program: /etc/passwd is not executable",
        ),
        ("[commands.x]\nprogram = \"/etc\"".into(), "commands.x.program: /etc is no file"),
        (with("shell = true"), "commands.\"a.b\".shell: is not known"),
        (with("args = \"-l\""), "commands.\"a.b\".args: must be a list"),
        (with("args = [\"{x}\"]"), "commands.\"a.b\".args[0]: {x} is not known"),
        (with("stdin = \"tty\""), "commands.\"a.b\".stdin: must be one of \"none\", \"payload\""),
        (with("result = \"json\""), "commands.\"a.b\".result: must be one of \"none\", \"last_line_json\""),
        (
            with("timeout_seconds = 0"),
            "commands.\"a.b\".timeout_seconds: must be a whole number from 1 to 604800",
        ),
        (with("grace_seconds = -1"), "commands.\"a.b\".grace_seconds: must be a whole number"),
        (with("directory = \"tmp\""), "commands.\"a.b\".directory: must be \"private\" or an absolute path"),
        (with("directory = \"/no/such\""), "commands.\"a.b\".directory: /no/such is no directory"),
        (
            with("env = { set = { \"A B\" = \"\" } }"),
            "commands.\"a.b\".env.set.\"A B\": is no name of a variable",
        ),
        (
            with("env = { set = { JOBFORGE_X = \"\" } }"),
            "commands.\"a.b\".env.set.JOBFORGE_X: is JobForge's own",
        ),
        (with("env = { pass = [7] }"), "commands.\"a.b\".env.pass: element 0 is no name"),
        (
            with("env = { secret = { T = \"env:NOT_THERE_AT_ALL\" } }"),
            "commands.\"a.b\".env.secret.T: the worker's environment has no NOT_THERE_AT_ALL",
        ),
        (
            with("env = { secret = { T = \"hunter2\" } }"),
            "commands.\"a.b\".env.secret.T: \"hunter2\" is no reference",
        ),
        (with("env = { copy = [] }"), "commands.\"a.b\".env.copy: is not known"),
        (with("limits = { memory_mb = 0 }"), "commands.\"a.b\".limits.memory_mb: must be a whole number"),
        (with("limits = { memory = 1 }"), "commands.\"a.b\".limits.memory: is not known"),
        (
            with("limits = { processes = 10 }"),
            "commands.\"a.b\".limits.processes: has no effect without a user to drop to",
        ),
        (
            with("exit_codes = { success = [300] }"),
            "commands.\"a.b\".exit_codes.success: must be a list of exit codes",
        ),
        ("x = ".into(), "the file: line 1, column 5: "),
    ];
    assert_each(&cases);
}

#[test]
fn a_line_that_is_no_toml_is_not_repeated() {
    let found = problems("[commands.x.env.set]\nURL = \"amqp://u:canary@h\n");
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].starts_with("the file: line 2, column 25: invalid basic string"), "{found:#?}");
    assert!(!found[0].contains("canary"), "{found:#?}");
}

#[test]
fn isolation_is_asked_for_where_it_can_be_had() {
    let with = |field: &str| format!("[commands.\"a.b\"]\nprogram = \"/bin/sh\"\n{field}");
    assert_each(&[
        (with("private_tmp = 1"), "commands.\"a.b\".private_tmp: must be true or false"),
        (with("isolation = \"yes\""), "commands.\"a.b\".isolation: must be one of \"auto\", \"required\""),
        (
            format!("namespaces = \"off\"\n{}", with("private_tmp = false")),
            "commands.\"a.b\".private_tmp: has no effect while namespaces are off",
        ),
        (
            format!("namespaces = \"off\"\n{}", with("isolation = \"required\"")),
            "commands.\"a.b\".isolation: cannot be had while namespaces are off",
        ),
        (
            format!("namespaces = \"require\"\n{}", with("isolation = \"auto\"")),
            "commands.\"a.b\".isolation: has no effect while namespaces are required for all commands",
        ),
    ]);
}

/// Each text has this problem and no other.
fn assert_each(cases: &[(String, &str)]) {
    for (text, problem) in cases {
        let found = problems(text);
        assert!(found.len() == 1 && found[0].starts_with(problem), "{text}\n{problem}\n{found:#?}");
    }
}

#[test]
fn a_user_is_one_that_the_worker_can_drop_to() {
    let with = |field: &str| format!("[commands.x]\nprogram = \"/bin/sh\"\n{field}");
    let cases = if is_root() {
        vec![
            (with("user = \"no-such-user\""), "commands.x.user: there is no user no-such-user"),
            (
                with("user = \"root\"\nlimits = { processes = 10 }"),
                "commands.x.limits.processes: has no effect",
            ),
        ]
    } else {
        vec![(with("user = \"nobody\""), "commands.x.user: only a worker that is root")]
    };
    assert_each(&cases);
}

#[test]
fn all_problems_are_told_at_once() {
    let text = "colour = 1\n[commands.\"a.b\"]\nprogram = \"sh\"\nargs = [\"{x}\", \"-{payload.y}\"]\nstdin = 3\n[commands.c]\n";
    assert_eq!(problems(text).len(), 6, "{:#?}", problems(text));
    let missing = CommandFile::load(Path::new("/no/such.toml"), &WorkerEnvironment).unwrap_err();
    assert!(missing[0].to_string().starts_with("/no/such.toml: cannot be read: No such file"), "{missing:?}");
}

#[test]
fn a_command_that_would_run_as_root_is_warned_of() {
    let file = CommandFile::parse("[commands.x]\nprogram = \"/bin/sh\"", &WorkerEnvironment).unwrap();
    let warned = file.warnings().iter().any(|warning| warning.problem.contains("runs as root"));
    assert_eq!(warned, is_root());
}
