//! Arguments: literals and placeholders, each exactly one element of the program's argv. Nothing is split,
//! quoted or expanded, because there is no shell.

use jobforge_worker::Context;
use serde_json::Value;
use toml::Value as Toml;
use uuid::Uuid;

use super::fields::{Fields, Problem};

/// What follows the program's name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Arguments(Vec<Argument>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Argument {
    One(Element),
    /// Left out together when a value that one of them asks for is absent or null.
    Optional(Vec<Element>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Element {
    path: String,
    parts: Vec<Part>,
    /// Whether data may begin with a dash here, where a program could take it for an option.
    dash_allowed: bool,
    /// Whether an object or a list becomes its JSON text.
    json: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Value(Source),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    TenantId,
    JobId,
    Attempt,
    Payload(Vec<String>),
}

/// What placeholders stand for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) tenant_id: Uuid,
    pub(super) job_id: Uuid,
    pub(super) attempt: i32,
    pub(super) payload: &'a Value,
}

impl<'a> Facts<'a> {
    pub(super) fn of(context: &Context, payload: &'a Value) -> Facts<'a> {
        Facts {
            tenant_id: context.tenant_id(),
            job_id: context.job_id(),
            attempt: context.attempt(),
            payload,
        }
    }
}

impl Arguments {
    /// Reads a list of arguments; what is wrong with each is added to the problems.
    pub(super) fn read(path: &str, list: Vec<Toml>, problems: &mut Vec<Problem>) -> Arguments {
        let mut arguments = Vec::new();
        let mut after_dashes = false;
        for (at, value) in list.into_iter().enumerate() {
            after_dashes |= value.as_str() == Some("--");
            if let Some(mut argument) = Argument::read(&format!("{path}[{at}]"), value, problems) {
                if after_dashes {
                    argument.elements().for_each(|element| element.dash_allowed = true);
                }
                argument.elements().for_each(|element| problems.extend(element.doubt()));
                arguments.push(argument);
            }
        }
        Arguments(arguments)
    }

    /// The elements for one job, or why it cannot run.
    pub(super) fn fill(&self, facts: Facts<'_>) -> Result<Vec<String>, String> {
        let mut argv = Vec::new();
        for argument in &self.0 {
            match argument {
                Argument::One(element) => argv.push(element.fill(facts)?),
                Argument::Optional(elements) => {
                    if elements.iter().all(|element| element.has_values(facts)) {
                        for element in elements {
                            argv.push(element.fill(facts)?);
                        }
                    }
                }
            }
        }
        Ok(argv)
    }
}

impl Argument {
    fn read(path: &str, value: Toml, problems: &mut Vec<Problem>) -> Option<Argument> {
        let Toml::Table(mut table) = value else {
            return Element::read(path, value, problems).map(Argument::One);
        };
        let Some(group) = table.remove("optional") else {
            return Element::read(path, Toml::Table(table), problems).map(Argument::One);
        };
        Fields::new(path, table, problems).end();
        let path = format!("{path}.optional");
        let Toml::Array(list) = group else {
            problems.push(Problem::new(path, "must be a list"));
            return None;
        };
        let read = |(at, value)| Element::read(&format!("{path}[{at}]"), value, problems);
        let elements: Vec<Element> = list.into_iter().enumerate().filter_map(read).collect();
        if elements.iter().all(|element| element.values().next().is_none()) {
            problems.push(Problem::new(path, "needs a placeholder that can be absent"));
        }
        Some(Argument::Optional(elements))
    }

    fn elements(&mut self) -> impl Iterator<Item = &mut Element> {
        match self {
            Argument::One(element) => std::slice::from_mut(element).iter_mut(),
            Argument::Optional(elements) => elements.iter_mut(),
        }
    }
}

impl Element {
    fn read(path: &str, value: Toml, problems: &mut Vec<Problem>) -> Option<Element> {
        let (text, dash_allowed, json) = match value {
            Toml::String(text) => (Some(text), false, false),
            Toml::Table(table) => {
                let mut fields = Fields::new(path, table, problems);
                let text = fields.text("value");
                let dash = fields.choice("dash", &[("refuse", false), ("allow", true)]).unwrap_or(false);
                let json = fields.flag("json").unwrap_or(false);
                if text.is_none() {
                    fields.problem("value", "is missing");
                }
                fields.end();
                (text, dash, json)
            }
            _ => {
                problems.push(Problem::new(path, "must be a text or a table"));
                (None, false, false)
            }
        };
        match parse(&text?) {
            Ok(parts) => Some(Element { path: path.to_owned(), parts, dash_allowed, json }),
            Err(problem) => {
                problems.push(Problem::new(path, problem));
                None
            }
        }
    }

    /// `-{…}` lets data choose the option itself.
    fn doubt(&self) -> Option<Problem> {
        let Some(Part::Literal(first)) = self.parts.first() else { return None };
        let names_option =
            !first.is_empty() && first.bytes().all(|byte| byte == b'-') && self.parts.len() > 1;
        (names_option && !self.dash_allowed).then(|| {
            let problem = "data would choose the option: write its name, or say dash = \"allow\"";
            Problem::new(&self.path, problem)
        })
    }

    fn values(&self) -> impl Iterator<Item = &Source> {
        self.parts.iter().filter_map(|part| match part {
            Part::Literal(_) => None,
            Part::Value(source) => Some(source),
        })
    }

    fn has_values(&self, facts: Facts<'_>) -> bool {
        self.values().all(|source| source.find(facts).is_some())
    }

    fn fill(&self, facts: Facts<'_>) -> Result<String, String> {
        let refuse = |source: &Source, why: &str| format!("{}: {} {why}", self.path, source.name());
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Value(source) => {
                    let value = source.find(facts).ok_or_else(|| refuse(source, "is absent or null"))?;
                    match value {
                        Value::String(value) => text.push_str(&value),
                        Value::Object(_) | Value::Array(_) if !self.json => {
                            return Err(refuse(
                                source,
                                "is an object or a list, and the command takes neither here",
                            ));
                        }
                        value => text.push_str(&value.to_string()),
                    }
                }
            }
        }
        if text.contains('\0') {
            return Err(format!("{}: a value holds a NUL character, which no argument can", self.path));
        }
        // A literal before the data keeps it from being read as an option.
        if text.starts_with('-') && !self.dash_allowed && matches!(self.parts.first(), Some(Part::Value(_))) {
            return Err(format!(
                "{}: the value begins with a dash, and could be taken for an option",
                self.path
            ));
        }
        Ok(text)
    }
}

impl Source {
    fn parse(name: &str) -> Result<Source, String> {
        let keys = match name {
            "tenant_id" => return Ok(Source::TenantId),
            "job_id" => return Ok(Source::JobId),
            "attempt" => return Ok(Source::Attempt),
            _ => name.strip_prefix("payload.").map(|keys| keys.split('.')),
        };
        let keys: Vec<String> = keys.into_iter().flatten().map(str::to_owned).collect();
        if keys.is_empty() || keys.iter().any(String::is_empty) {
            return Err(format!(
                "{{{name}}} is not known: write {{tenant_id}}, {{job_id}}, {{attempt}} or {{payload.a.b}}; {{{{ for a brace"
            ));
        }
        Ok(Source::Payload(keys))
    }

    fn name(&self) -> String {
        match self {
            Source::TenantId => "tenant_id".to_owned(),
            Source::JobId => "job_id".to_owned(),
            Source::Attempt => "attempt".to_owned(),
            Source::Payload(keys) => format!("payload.{}", keys.join(".")),
        }
    }

    /// Nothing for what is absent or null.
    fn find(&self, facts: Facts<'_>) -> Option<Value> {
        match self {
            Source::TenantId => Some(Value::String(facts.tenant_id.to_string())),
            Source::JobId => Some(Value::String(facts.job_id.to_string())),
            Source::Attempt => Some(Value::from(facts.attempt)),
            Source::Payload(keys) => {
                let step = |value: &'_ Value, key: &String| match value {
                    Value::Object(fields) => fields.get(key).cloned(),
                    Value::Array(items) => items.get(key.parse::<usize>().ok()?).cloned(),
                    _ => None,
                };
                let found = keys.iter().try_fold(facts.payload.clone(), |value, key| step(&value, key))?;
                (!found.is_null()).then_some(found)
            }
        }
    }
}

/// `{…}` is a placeholder, `{{` and `}}` are braces.
fn parse(text: &str) -> Result<Vec<Part>, String> {
    if text.contains('\0') {
        return Err("holds a NUL character, which no argument can".to_owned());
    }
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        literal.push_str(&rest[..at]);
        let brace = &rest[at..];
        if brace.starts_with("{{") || brace.starts_with("}}") {
            literal.push_str(&brace[..1]);
            rest = &brace[2..];
            continue;
        }
        let name = brace.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let Some((name, behind)) = name else {
            return Err("has a brace without its partner; {{ or }} for a brace".to_owned());
        };
        if !literal.is_empty() {
            parts.push(Part::Literal(std::mem::take(&mut literal)));
        }
        parts.push(Part::Value(Source::parse(name)?));
        rest = behind;
    }
    literal.push_str(rest);
    if !literal.is_empty() || parts.is_empty() {
        parts.push(Part::Literal(literal));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(list: &str) -> Result<Arguments, Vec<String>> {
        let table: toml::Table = format!("args = {list}").parse().unwrap();
        let mut problems = Vec::new();
        let arguments = Arguments::read("args", table["args"].as_array().unwrap().clone(), &mut problems);
        if problems.is_empty() {
            Ok(arguments)
        } else {
            Err(problems.iter().map(ToString::to_string).collect())
        }
    }

    fn fill(list: &str, payload: &Value) -> Result<Vec<String>, String> {
        let (tenant_id, job_id) = (Uuid::nil(), Uuid::max());
        read(list).unwrap().fill(Facts { tenant_id, job_id, attempt: 3, payload })
    }

    #[test]
    fn each_element_stays_one_whatever_the_data_holds() {
        let payload =
            json!({"a": "x y; rm -rf $HOME `id` | & > < * ' \" \n", "n": 1.5, "b": true, "l": [{"k": ""}]});
        let argv = fill(
            r#"["{payload.a}", "n={payload.n}{payload.b}", "{payload.l.0.k}", "{{}}", "{attempt}"]"#,
            &payload,
        );
        let a = payload["a"].as_str().unwrap();
        assert_eq!(argv.unwrap(), [a, "n=1.5true", "", "{}", "3"]);
        let ids = fill(r#"["{tenant_id}/{job_id}"]"#, &payload).unwrap();
        assert_eq!(ids, [format!("{}/{}", Uuid::nil(), Uuid::max())]);
    }

    #[test]
    fn a_leading_dash_is_refused_where_it_could_be_an_option() {
        let payload = json!({"a": "-rf", "empty": "", "n": -1});
        for list in [
            r#"["{payload.a}"]"#,
            r#"["{payload.empty}{payload.a}"]"#,
            r#"["{payload.n}"]"#,
            r#"["{payload.a}", "--"]"#,
        ] {
            let why = fill(list, &payload).unwrap_err();
            assert_eq!(
                why, "args[0]: the value begins with a dash, and could be taken for an option",
                "{list}"
            );
        }
        for list in [
            r#"["--size={payload.a}"]"#,
            r#"[{value = "{payload.a}", dash = "allow"}]"#,
            r#"["--", "{payload.a}"]"#,
            r#"["--", {optional = ["{payload.a}"]}]"#,
        ] {
            assert!(fill(list, &payload).unwrap().last().unwrap().ends_with("-rf"), "{list}");
        }
    }

    #[test]
    fn objects_nulls_and_nul_characters_are_refused() {
        let payload = json!({"o": {"k": [1]}, "z": "a\0b", "null": null});
        assert_eq!(
            fill(r#"["{payload.o}"]"#, &payload).unwrap_err(),
            "args[0]: payload.o is an object or a list, and the command takes neither here"
        );
        assert_eq!(fill(r#"[{value = "{payload.o}", json = true}]"#, &payload).unwrap(), [r#"{"k":[1]}"#]);
        assert!(fill(r#"["{payload.z}"]"#, &payload).unwrap_err().contains("NUL"));
        for path in ["null", "absent", "o.k.7", "o.k.x"] {
            let why = fill(&format!(r#"["x", "{{payload.{path}}}"]"#), &payload).unwrap_err();
            assert_eq!(why, format!("args[1]: payload.{path} is absent or null"));
        }
    }

    #[test]
    fn an_optional_group_is_there_as_a_whole_or_not_at_all() {
        let list = r#"["a", {optional = ["--title", "{payload.title}"]}, "z"]"#;
        assert_eq!(fill(list, &json!({"title": "t"})).unwrap(), ["a", "--title", "t", "z"]);
        assert_eq!(fill(list, &json!({"title": null})).unwrap(), ["a", "z"]);
        assert_eq!(fill(list, &json!({})).unwrap(), ["a", "z"]);
        assert!(fill(list, &json!({"title": "-t"})).is_err(), "a dash is refused in a group too");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_when_the_file_is_read() {
        for (list, problem) in [
            (r#"["{payload}"]"#, "args[0]: {payload} is not known"),
            (r#"["{payload.}"]"#, "args[0]: {payload.} is not known"),
            (r#"["a", "{secret}"]"#, "args[1]: {secret} is not known"),
            (r#"["{payload.a"]"#, "args[0]: has a brace without"),
            (r#"["a}b"]"#, "args[0]: has a brace without"),
            (r#"["-{payload.a}"]"#, "args[0]: data would choose the option"),
            (r#"["--{payload.a}"]"#, "args[0]: data would choose the option"),
            (r#"[{optional = ["--title"]}]"#, "args[0].optional: needs a placeholder"),
            (r#"[{optional = "x"}]"#, "args[0].optional: must be a list"),
            (r#"[{value = "x", dashes = "allow"}]"#, "args[0].dashes: is not known"),
            (r#"[{json = true}]"#, "args[0].value: is missing"),
            (r#"[7]"#, "args[0]: must be a text or a table"),
        ] {
            let problems = read(list).unwrap_err();
            assert!(problems.iter().any(|found| found.starts_with(problem)), "{list}: {problems:?}");
        }
        assert!(read(r#"[{value = "-{payload.a}", dash = "allow"}]"#).is_ok());
    }
}
