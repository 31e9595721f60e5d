//! The equal subplans of a plan.
//!
//! Each node has a fingerprint of itself and of the fingerprints of its inputs, so that subplans which may be equal are found in one walk.
//! Those that are replaced have been compared in full: as plans, and by the tables that they scan, which a plan compares by name only. (A
//! view keeps the table that had the name when it was made.)

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::mem::discriminant;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{Result, TableReference};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{LogicalPlan, TableScan};

use super::mention::{self, Mention, SubplanId};

/// The most subplans of a statement that are shared.
const SUBPLANS_MAX: usize = 32;

/// A plan with mentions in the places of subplans that it has several times. Nothing of it has been optimized.
pub(super) struct Repeats {
    pub(super) plan: LogicalPlan,
    /// By their numbers. One mentions only later ones.
    pub(super) subplans: Vec<LogicalPlan>,
}

impl Repeats {
    /// The repeats of a plan; `None` if there are none.
    pub(super) fn of(plan: &LogicalPlan) -> Result<Option<Self>> {
        let mut repeats = Self { plan: plan.clone(), subplans: Vec::new() };
        // The largest equal subplans first, then those that are left within them and elsewhere.
        while repeats.subplans.len() < SUBPLANS_MAX && repeats.replace()? {}
        Ok((!repeats.subplans.is_empty()).then_some(repeats))
    }

    /// Puts mentions in the places of the largest equal subplans; false if there are none.
    fn replace(&mut self) -> Result<bool> {
        let mut nodes = Vec::new();
        let roots: Vec<&LogicalPlan> = std::iter::once(&self.plan).chain(&self.subplans).collect();
        let mut starts = Vec::new();
        for root in roots {
            starts.push(nodes.len());
            survey(root, false, &mut nodes)?;
        }
        let mut times: HashMap<u64, usize> = HashMap::new();
        nodes
            .iter()
            .filter(|node| node.may_be_shared)
            .for_each(|node| *times.entry(node.print).or_default() += 1);
        let wanted = |place: usize| {
            let node: Option<&Node> = nodes.get(place);
            node.filter(|node| node.may_be_shared && times[&node.print] > 1)
                .map(|node| (node.print, node.nodes))
        };
        let before = self.subplans.len();
        let mut first: HashMap<u64, usize> = HashMap::new();
        let mut found: Vec<Found> = Vec::new();
        let roots: Vec<LogicalPlan> = std::iter::once(&self.plan).chain(&self.subplans).cloned().collect();
        let mut others = Vec::new();
        for (root, start) in roots.iter().zip(&starts) {
            let mut place = *start;
            let other = root.clone().transform_down_with_subqueries(|node| {
                let Some((print, count)) = wanted(place) else {
                    place += 1;
                    return Ok(Transformed::no(node));
                };
                let known = *first.entry(print).or_insert(found.len());
                if known == found.len() {
                    if before + found.len() >= SUBPLANS_MAX || !derives_its_schema(&node)? {
                        first.remove(&print);
                        place += 1;
                        return Ok(Transformed::no(node));
                    }
                    found.push(Found { plan: node.clone(), times: 0 });
                }
                let subplan = &mut found[known];
                if subplan.plan != node || !same_tables(&subplan.plan, &node)? {
                    place += 1;
                    return Ok(Transformed::no(node));
                }
                subplan.times += 1;
                place += count;
                let mention = Mention {
                    id: SubplanId(before + known),
                    schema: Arc::clone(node.schema()),
                    repeats: None,
                };
                Ok(Transformed::new(mention.into_plan(), true, TreeNodeRecursion::Jump))
            });
            others.push(other.data()?);
        }
        // One whose fingerprint another subplan had was found once only: its mention is computed where it stands.
        let is_any = found.iter().any(|found| found.times > 1);
        if !is_any {
            return Ok(false);
        }
        let mut others = others.into_iter();
        self.plan = others.next().expect("the plan is the first root");
        self.subplans = others.chain(found.into_iter().map(|found| found.plan)).collect();
        Ok(true)
    }

    /// The plan, whose mentions carry all of this.
    pub(super) fn with_mentions(self) -> Result<LogicalPlan> {
        let repeats = Arc::new(self);
        let plan = repeats.plan.clone();
        plan.transform_up_with_subqueries(|node| {
            Ok(match Mention::of(&node) {
                Some(mention) => {
                    let carrier = Mention { repeats: Some(Arc::clone(&repeats)), ..mention.clone() };
                    Transformed::yes(carrier.into_plan())
                }
                None => Transformed::no(node),
            })
        })
        .data()
    }

    /// The repeats that the mentions of a plan carry.
    pub(super) fn carried_by(plan: &LogicalPlan) -> Result<Option<Arc<Self>>> {
        let mut carried = None;
        mention::for_each(plan, |mention| {
            if let Some(repeats) = &mention.repeats {
                carried = Some(Arc::clone(repeats));
            }
        })?;
        Ok(carried)
    }
}

/// A subplan that is mentioned so many times.
struct Found {
    plan: LogicalPlan,
    times: usize,
}

/// A node, in the order in which `transform_down_with_subqueries` comes to it.
#[derive(Default)]
struct Node {
    /// Equal for equal subplans.
    print: u64,
    /// The number of nodes of the subplan.
    nodes: usize,
    /// False for a subplan that depends on what is around it, or has other rows each time that it runs.
    is_closed: bool,
    /// True for a subplan that reads the rows of a round of a recursive query around it.
    reads_round: bool,
    /// True for a subplan that is more than a scan with a filter.
    has_work: bool,
    may_be_shared: bool,
}

/// True of a node whose columns are those of its expressions. A union gives its inputs projections whose columns have no qualifiers, which
/// the optimizer takes for a fault where such a one is the whole plan.
fn derives_its_schema(plan: &LogicalPlan) -> Result<bool> {
    let derived = plan.clone().recompute_schema()?;
    let names = |plan: &LogicalPlan| -> Vec<(Option<TableReference>, String)> {
        plan.schema().iter().map(|(table, field)| (table.cloned(), field.name().clone())).collect()
    };
    Ok(names(&derived) == names(plan))
}

/// Adds the nodes of a plan; the place of the first. What runs for each round of a recursive query is not shared.
fn survey(plan: &LogicalPlan, is_repeated: bool, nodes: &mut Vec<Node>) -> Result<usize> {
    let place = nodes.len();
    nodes.push(Node::default());
    let mut print = DefaultHasher::new();
    let mut is_closed = is_closed(plan, &mut print)?;
    let mut reads_round = is_round(plan);
    let mut has_work = does_work(plan);
    let mut add = |input: &LogicalPlan, is_repeated: bool, nodes: &mut Vec<Node>| -> Result<()> {
        let input = survey(input, is_repeated, nodes)?;
        let input = &nodes[input];
        input.print.hash(&mut print);
        is_closed &= input.is_closed;
        reads_round |= input.reads_round;
        has_work |= input.has_work;
        Ok(())
    };
    plan.apply_subqueries(|subquery| {
        add(subquery, is_repeated, nodes)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    for (number, input) in plan.inputs().into_iter().enumerate() {
        let is_recursive_term = matches!(plan, LogicalPlan::RecursiveQuery(_)) && number == 1;
        add(input, is_repeated || is_recursive_term, nodes)?;
    }
    if let LogicalPlan::RecursiveQuery(_) = plan {
        // The rounds that are read within it are its own, unless it is within another.
        reads_round &= is_repeated;
    }
    let may_be_shared = is_closed && !reads_round && has_work && !is_repeated && is_whole(plan);
    let count = nodes.len() - place;
    nodes[place] =
        Node { print: print.finish(), nodes: count, is_closed, reads_round, has_work, may_be_shared };
    Ok(place)
}

/// True of nodes that end a query, or a part of one that is computed as it is, and not what joins or filters are made of.
fn is_whole(plan: &LogicalPlan) -> bool {
    matches!(
        plan,
        LogicalPlan::Projection(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Distinct(_)
            | LogicalPlan::Union(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::RecursiveQuery(_)
    )
}

fn does_work(plan: &LogicalPlan) -> bool {
    matches!(
        plan,
        LogicalPlan::Aggregate(_)
            | LogicalPlan::Distinct(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::RecursiveQuery(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Window(_)
    )
}

/// True of a node that is the same wherever and whenever it is computed. Adds what it is to a fingerprint.
fn is_closed(plan: &LogicalPlan, print: &mut DefaultHasher) -> Result<bool> {
    discriminant(plan).hash(print);
    plan.schema().fields().len().hash(print);
    let mut is_closed = match plan {
        LogicalPlan::Subquery(subquery) => subquery.outer_ref_columns.is_empty(),
        LogicalPlan::TableScan(scan) => {
            scan.table_name.hash(print);
            scan.projection.hash(print);
            let table = table_of(scan);
            table.as_ref().map(|table| Arc::as_ptr(table).cast::<()>() as usize).hash(print);
            table.is_some()
        }
        LogicalPlan::SubqueryAlias(alias) => {
            alias.alias.hash(print);
            true
        }
        LogicalPlan::Extension(extension) => {
            extension.node.hash(print);
            true
        }
        LogicalPlan::Dml(_)
        | LogicalPlan::Ddl(_)
        | LogicalPlan::Copy(_)
        | LogicalPlan::Statement(_)
        | LogicalPlan::Explain(_)
        | LogicalPlan::Analyze(_)
        | LogicalPlan::DescribeTable(_) => false,
        _ => true,
    };
    plan.apply_expressions(|expr| {
        expr.hash(print);
        is_closed &= !expr.is_volatile() && !expr.contains_outer();
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(is_closed)
}

fn is_round(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => table_of(scan).is_some_and(|table| table.is::<CteWorkTable>()),
        _ => false,
    }
}

fn table_of(scan: &TableScan) -> Option<Arc<dyn TableProvider>> {
    source_as_provider(&scan.source).ok()
}

/// True if two equal plans scan the same tables, and not others of the same names.
fn same_tables(one: &LogicalPlan, other: &LogicalPlan) -> Result<bool> {
    let (one, other) = (tables(one)?, tables(other)?);
    let is_same = |(one, other): (&Table, &Table)| match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        _ => false,
    };
    Ok(one.len() == other.len() && one.iter().zip(&other).all(is_same))
}

type Table = Option<Arc<dyn TableProvider>>;

fn tables(plan: &LogicalPlan) -> Result<Vec<Table>> {
    let mut tables = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            tables.push(table_of(scan));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
    use datafusion::datasource::empty::EmptyTable;
    use datafusion::datasource::provider_as_source;
    use datafusion::functions_aggregate::sum::sum;
    use datafusion::logical_expr::{LogicalPlanBuilder, col};
    use datafusion::prelude::SessionContext;

    use super::*;

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("b", DataType::Int64, true),
        ]))
    }

    /// The number of repeated subplans of a union of two sums over tables.
    fn repeats(one: &Arc<dyn TableProvider>, other: &Arc<dyn TableProvider>) -> usize {
        let sums = |table: &Arc<dyn TableProvider>| {
            let scan = LogicalPlanBuilder::scan("t", provider_as_source(Arc::clone(table)), None).unwrap();
            scan.aggregate([col("b")], [sum(col("a"))]).unwrap()
        };
        let plan = sums(one).union(sums(other).build().unwrap()).unwrap().build().unwrap();
        Repeats::of(&plan).unwrap().map_or(0, |repeats| repeats.subplans.len())
    }

    #[test]
    fn a_round_of_a_recursive_query_and_another_table_of_the_name_are_not_shared() {
        let table: Arc<dyn TableProvider> = Arc::new(EmptyTable::new(schema()));
        let other: Arc<dyn TableProvider> = Arc::new(EmptyTable::new(schema()));
        let round: Arc<dyn TableProvider> = Arc::new(CteWorkTable::new("t", schema()));
        assert_eq!(repeats(&table, &table), 1);
        assert_eq!(repeats(&table, &other), 0);
        assert_eq!(repeats(&round, &round), 0);
    }

    #[tokio::test]
    async fn a_subplan_that_reads_a_column_of_the_query_around_it_is_not_shared() {
        let context = SessionContext::new();
        context.register_table("t", Arc::new(EmptyTable::new(schema()))).unwrap();
        let count = async |sql: &str| {
            let plan = context.state().create_logical_plan(sql).await.unwrap();
            Repeats::of(&plan).unwrap().map_or(0, |repeats| repeats.subplans.len())
        };
        let of = |condition: &str| {
            let sum = format!("(SELECT sum(a) FROM t WHERE {condition})");
            format!("SELECT {sum} AS x, {sum} + 1 AS y FROM t AS o")
        };
        assert_eq!(count(&of("t.b = 1")).await, 1);
        assert_eq!(count(&of("t.b = o.b")).await, 0);
    }
}
