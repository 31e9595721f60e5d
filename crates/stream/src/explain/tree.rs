use super::outline::{Pairs, QueryOutline, StateOutline, StepOutline};

/// A query as a tree of text: what rows come to is above what they come from. Each line has its end.
pub fn tree(query: &QueryOutline) -> String {
    let mut lines = vec![format!("query {}", query.name)];
    let head = [("output mode", query.output_mode), ("guarantee", query.guarantee)];
    for (name, value) in head {
        lines.push(format!("│  {name}: {value}"));
    }
    lines.extend(query.settings.0.iter().map(|(name, value)| format!("│  {name} = {value}")));
    add(&mut lines, &query.sink, "", true);
    lines.push(String::new());
    lines.join("\n")
}

/// Adds a step and those before it; `margin` stands before its lines.
fn add(lines: &mut Vec<String>, step: &StepOutline, margin: &str, is_last: bool) {
    let name = step.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
    lines.push(format!("{margin}{} {}{name}", if is_last { "└─" } else { "├─" }, step.operator));
    let margin = format!("{margin}{}", if is_last { "   " } else { "│  " });
    let rule = if step.inputs.is_empty() { "   " } else { "│  " };
    lines.extend(of(step).into_iter().map(|line| format!("{margin}{rule}{line}")));
    for (at, input) in step.inputs.iter().enumerate() {
        add(lines, input, &margin, at + 1 == step.inputs.len());
    }
}

/// Lines on a step alone.
fn of(step: &StepOutline) -> Vec<String> {
    let details = step.details.0.iter().map(|(name, value)| format!("{name}: {value}"));
    let mut lines: Vec<String> = details.collect();
    lines.extend(step.options.0.iter().map(|(name, value)| format!("{name} = {value}")));
    if !step.defaults.is_empty() {
        let defaults = step.defaults.0.iter().map(|(name, value)| format!("{name} = {value}"));
        lines.push(format!("by default: {}", defaults.collect::<Vec<_>>().join(", ")));
    }
    lines.extend(step.state.iter().flat_map(of_table));
    lines
}

fn of_table(table: &StateOutline) -> [String; 3] {
    let columns = |pairs: &Pairs| {
        let named: Vec<String> = pairs.0.iter().map(|(name, kind)| format!("{name} {kind}")).collect();
        if named.is_empty() { "nothing".to_owned() } else { named.join(", ") }
    };
    [
        format!("state {}: kept {}", table.table, table.kept),
        format!("   by {}", columns(&table.keys)),
        format!("   has {}", columns(&table.values)),
    ]
}
