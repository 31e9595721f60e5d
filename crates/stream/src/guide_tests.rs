//! Goal: whoever copies a job of the guide gets a query. Method: each block of SQL of `docs/stream.md` is planned after the streams,
//! tables and sinks that blocks before it name; sinks that no block names are `noop`.

use std::collections::BTreeMap;

const GUIDE: &str = include_str!("../../../docs/stream.md");

/// The name that a statement defines, with its kind.
fn defined(statement: &str) -> Option<(&str, &str)> {
    let mut words = statement.split_whitespace();
    match (words.next()?, words.next()?, words.next()?) {
        ("CREATE", kind, name) => Some((kind, name)),
        _ => None,
    }
}

#[test]
fn every_job_of_the_guide_is_planned() {
    let guide: String =
        GUIDE.lines().filter(|line| !line.starts_with("-- ")).map(|line| format!("{line}\n")).collect();
    let mut known: BTreeMap<&str, String> = BTreeMap::new();
    let (mut blocks, mut queries) = (0, 0);
    for block in guide.split("```sql\n").skip(1) {
        let text = block.split("```").next().unwrap_or_default();
        let statements: Vec<&str> = text.split(";").map(str::trim).filter(|text| !text.is_empty()).collect();
        let own: Vec<&str> = statements.iter().filter_map(|text| Some(defined(text)?.1)).collect();
        let mut job: String =
            known.iter().filter(|(name, _)| !own.contains(name)).map(|(_, text)| text.as_str()).collect();
        for statement in &statements {
            if let Some(rest) = statement.strip_prefix("INSERT INTO ") {
                let sink = rest.split_whitespace().next().unwrap();
                if !own.contains(&sink) {
                    // A sink of an earlier block may be of another query there.
                    if let Some(earlier) = known.get(sink) {
                        job = job.replace(earlier, "");
                    }
                    job += &format!("CREATE SINK {sink} WITH ('connector' = 'noop');\n");
                }
            }
        }
        job += &statements.iter().map(|text| format!("{text};\n")).collect::<String>();
        if !job.contains("INSERT INTO") {
            job += "CREATE SINK all_rows WITH ('connector' = 'noop'); INSERT INTO all_rows SELECT * FROM orders;";
        }
        let planned = crate::parse_job(&job);
        queries += planned.unwrap_or_else(|error| panic!("{error} {:?}\n{job}", error.hint())).len();
        blocks += 1;
        for statement in &statements {
            if let Some(("STREAM" | "TABLE", name)) = defined(statement) {
                known.insert(name, format!("{statement};\n"));
            }
        }
    }
    assert!(blocks >= 10 && queries >= blocks, "{queries} queries in {blocks} blocks");
}
