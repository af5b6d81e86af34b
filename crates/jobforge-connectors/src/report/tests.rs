use serde_json::{Value, json};

use super::*;

fn request(payload: &Value) -> ReportRequest {
    serde_json::from_str(&payload.to_string()).unwrap()
}

/// A report of given rows, without a database for the time.
fn made(payload: &Value) -> Result<Report, ReportError> {
    let request = request(payload);
    request.check()?;
    let table = Table::new(request.columns.as_ref().unwrap(), request.rows.as_ref().unwrap())?;
    let at = "2030-01-31T08:00:00Z".parse().unwrap();
    write(&request, &Filled { table, at, truncated: false })
}

fn csv(columns: &Value, rows: &Value) -> String {
    made(&json!({ "format": "csv", "columns": columns, "rows": rows })).unwrap().body
}

#[test]
fn csv_is_quoted_as_the_rfc_says() {
    let body = csv(&json!(["a", "b,c"]), &json!([["x", "say \"hi\""], ["two\nlines", "a;b"], [null, true]]));
    assert_eq!(body, "a,\"b,c\"\r\nx,\"say \"\"hi\"\"\"\r\n\"two\nlines\",a;b\r\n,true\r\n");
}

#[test]
fn no_cell_of_a_csv_is_a_formula() {
    for text in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "＋1", "－1", "＠x"] {
        let body = csv(&json!(["a", text]), &json!([[text, "b"]]));
        let mut reader = ::csv::ReaderBuilder::new().has_headers(false).from_reader(body.as_bytes());
        let cells: Vec<String> = reader
            .records()
            .flat_map(|row| row.unwrap().iter().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        assert_eq!(cells, ["a", &format!("'{text}"), &format!("'{text}"), "b"]);
    }
    assert_eq!(
        csv(&json!(["a"]), &json!([["a=b"], [-5], [-1.5], [["=1"]]])),
        "a\r\na=b\r\n-5\r\n-1.5\r\n\"[\"\"=1\"\"]\"\r\n"
    );
}

#[test]
fn html_shows_every_value_as_a_text() {
    let evil = "<script>alert(1)</script>{{ 7*7 }}{% raw %}\"'&";
    let payload =
        json!({ "format": "html", "title": evil, "columns": [evil], "rows": [[evil], [7], [{ "a": evil }]] });
    let report = made(&payload).unwrap();
    let body = &report.body;
    assert!(!body.contains("<script>") && !body.contains("49") && body.contains("{{ 7*7 }}"), "{body}");
    assert_eq!(body.matches("&lt;script&gt;").count(), 5, "{body}");
    assert!(body.contains("<td class=\"number\">7</td>") && body.contains("2030-01-31T08:00:00Z"), "{body}");
    assert_eq!(report.content_type, "text/html; charset=utf-8");
}

#[test]
fn json_keeps_numbers_and_the_order_of_columns() {
    let payload = r#"{"format": "json", "title": "T", "columns": ["z", "a"],
        "rows": [{"a": 1.10, "z": 9007199254740993}, {"z": null}, [1e300, {"x": [1, 2]}]]}"#;
    let request: ReportRequest = serde_json::from_str(payload).unwrap();
    let table = Table::new(request.columns.as_ref().unwrap(), request.rows.as_ref().unwrap()).unwrap();
    let at = "2030-01-31T08:00:00Z".parse().unwrap();
    let report = write(&request, &Filled { table, at, truncated: true }).unwrap();
    let wanted = r#"{"title":"T","generated_at":"2030-01-31T08:00:00Z","truncated":true,"columns":["z","a"],"rows":[[9007199254740993,1.10],[null,null],[1e300,{"x": [1, 2]}]]}"#;
    assert_eq!(report.body, wanted);
    assert_eq!((report.rows, report.truncated, report.filename.as_str()), (3, true, "report.json"));
}

#[test]
fn what_makes_no_report_is_refused_with_its_reason() {
    let rows = |columns: Value, rows: Value| json!({ "format": "csv", "columns": columns, "rows": rows });
    for (payload, told) in [
        (json!({ "format": "csv" }), "either columns"),
        (json!({ "format": "csv", "columns": ["a"] }), "either columns"),
        (json!({ "format": "csv", "columns": ["a"], "rows": [], "source": "jobs" }), "either columns"),
        (json!({ "format": "csv", "columns": ["a"], "rows": [], "group_by": "day" }), "either columns"),
        (rows(json!([]), json!([])), "different names"),
        (rows(json!(["a", "a"]), json!([])), "different names"),
        (rows(json!([""]), json!([])), "different names"),
        (rows(json!(["a"]), json!([[1], [1, 2]])), "row 2 of the report has 2 values for 1 columns"),
        (rows(json!(["a"]), json!([{ "b": 1 }])), "no column"),
        (rows(json!(["a"]), json!([7])), "neither a list nor an object"),
        (json!({ "format": "csv", "columns": ["a"], "rows": [], "filename": "../x" }), "filename"),
        (json!({ "format": "csv", "columns": ["a"], "rows": [], "title": "x".repeat(201) }), "title"),
        (rows(json!(["a"]), json!([["x".repeat(MAX_RESULT)]])), "at most 900000"),
        // Each quote is written twice in CSV, and each of them with a backslash in the result.
        (rows(json!(["a"]), json!([["\"".repeat(250_000)]])), "at most 900000"),
    ] {
        let error = made(&payload).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

/// The schema takes what the handler takes, but for the width of rows and what it says of formats.
#[test]
fn the_schema_and_the_handler_agree() {
    let schema: Value = serde_json::from_str(schema()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let agree = |payload: Value| {
        let read = serde_json::from_str::<ReportRequest>(&payload.to_string());
        let taken = read.is_ok_and(|request| {
            let rows = request.columns.as_ref().zip(request.rows.as_ref());
            request.check().is_ok() && rows.is_none_or(|(columns, rows)| Table::new(columns, rows).is_ok())
        });
        assert_eq!(validator.is_valid(&payload), taken, "{payload}");
        taken
    };
    for payload in [
        json!({ "format": "csv", "columns": ["a"], "rows": [[1], { "a": 2 }, {}] }),
        json!({ "format": "json", "source": "jobs" }),
        json!({ "format": "html", "source": "jobs", "group_by": "status", "from": "2030-01-01T00:00:00Z" }),
        json!({ "format": "html", "source": "flow", "group_by": "hour", "to": "2030-01-01T00:00:00Z" }),
    ] {
        assert!(agree(payload));
    }
    for payload in [
        json!({ "format": "pdf", "source": "jobs" }),
        json!({ "source": "jobs" }),
        json!({ "format": "csv" }),
        json!({ "format": "csv", "source": "others" }),
        json!({ "format": "csv", "source": "jobs", "group_by": "hour" }),
        json!({ "format": "csv", "source": "flow", "group_by": "type" }),
        json!({ "format": "csv", "source": "jobs", "columns": ["a"], "rows": [] }),
        json!({ "format": "csv", "columns": ["a"], "rows": [], "from": "2030-01-01T00:00:00Z" }),
        json!({ "format": "csv", "columns": ["a", "a"], "rows": [] }),
        json!({ "format": "csv", "columns": ["a"], "rows": [1] }),
        json!({ "format": "csv", "columns": ["a"], "rows": [], "filename": "a/b" }),
        json!({ "format": "csv", "columns": ["a"], "rows": [], "other": 1 }),
    ] {
        assert!(!agree(payload));
    }
}
