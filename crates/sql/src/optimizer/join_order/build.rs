//! The plan of an order of joins.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, JoinType, Result, internal_datafusion_err};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExecBuilder, NestedLoopJoinExecBuilder, PartitionMode,
};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::cardinality::Cardinalities;
use super::graph::{ExistenceTest, JoinGraph, JoinTree, Predicate, column, columns_of};
use super::relation_set::RelationSet;

/// Bytes that are assumed of a value whose size differs from row to row.
const TEXT_BYTES: usize = 32;
/// The most bytes that all partitions of a join share, and how many times more rows have to be looked up in them for that.
const SHARED_BYTES_MAX: f64 = 32.0 * 1024.0 * 1024.0;
const SHARED_LOOKUPS: f64 = 8.0;

/// A builder of the plan of an order.
pub(super) struct Builder<'g, 'c> {
    pub(super) graph: &'g JoinGraph,
    pub(super) cardinalities: &'c mut Cardinalities<'g>,
    pub(super) config: &'c ConfigOptions,
}

/// The plan of a set of relations, with the place in the graph of each of its columns.
struct Built {
    plan: Arc<dyn ExecutionPlan>,
    columns: Vec<usize>,
    set: RelationSet,
}

type Pairs = Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)>;

impl<'g> Builder<'g, '_> {
    /// The plan of an order, with columns like those of `schema`.
    ///
    /// # Errors
    /// DataFusion's.
    pub(super) fn build(&mut self, tree: &JoinTree, schema: &SchemaRef) -> Result<Arc<dyn ExecutionPlan>> {
        let built = self.tree(tree)?;
        let constants = self.predicates(|predicate| predicate.needs.is_empty());
        let built = filtered(built, &constants)?;
        let fields = schema.fields().iter().zip(&self.graph.output);
        let columns = fields.map(|(field, expr)| {
            Ok(ProjectionExpr { expr: local(expr, &built.columns)?, alias: field.name().clone() })
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let plain = ProjectionExec::try_new(columns.clone(), Arc::clone(&built.plan))?;
        if plain.schema() == *schema {
            return Ok(Arc::new(plain));
        }
        Ok(Arc::new(ProjectionExec::try_new_with_schema_metadata(columns, built.plan, schema)?))
    }

    fn tree(&mut self, tree: &JoinTree) -> Result<Built> {
        match tree {
            JoinTree::Relation(relation) => self.relation(*relation),
            JoinTree::Join(sides) => {
                let (one, other) = (self.tree(&sides.0)?, self.tree(&sides.1)?);
                if let Some(test) = self.test_of(&other) {
                    return self.tested(one, other, test);
                }
                if let Some(test) = self.test_of(&one) {
                    return self.tested(other, one, test);
                }
                self.joined(one, other)
            }
        }
    }

    fn test_of(&self, built: &Built) -> Option<&'g ExistenceTest> {
        let relation = built.set.first().filter(|_| built.set.len() == 1)?;
        self.graph.relations[relation].test.as_ref()
    }

    fn relation(&self, place: usize) -> Result<Built> {
        let relation = &self.graph.relations[place];
        let (plan, set) = (Arc::clone(&relation.plan), RelationSet::of(place));
        let columns = (relation.start..relation.start + plan.schema().fields().len()).collect();
        let own = self.predicates(|predicate| predicate.needs == set);
        filtered(Built { plan, columns, set }, &own)
    }

    fn predicates(&self, is_one: impl Fn(&Predicate) -> bool) -> Vec<&'g Predicate> {
        self.graph.predicates.iter().filter(|predicate| is_one(predicate)).collect()
    }

    /// The predicates that can be asked once two sets are joined, and not before.
    fn asked(&self, one: RelationSet, other: RelationSet) -> Vec<&'g Predicate> {
        self.predicates(|predicate| {
            predicate.needs.is_within(one | other)
                && !predicate.needs.is_within(one)
                && !predicate.needs.is_within(other)
        })
    }

    /// An inner join.
    fn joined(&mut self, one: Built, other: Built) -> Result<Built> {
        let is_less = self.cardinalities.rows(one.set) <= self.cardinalities.rows(other.set);
        let (left, right) = if is_less { (one, other) } else { (other, one) };
        let set = left.set | right.set;
        let mut keys: Pairs = Vec::new();
        for class in &self.graph.classes {
            let of_side = |side: &Built| self.representative(&class.columns, side.set);
            if let (Some(one), Some(other)) = (of_side(&left), of_side(&right)) {
                keys.push((self.local_column(one, &left)?, self.local_column(other, &right)?));
            }
        }
        let (risky, asked): (Vec<_>, Vec<_>) =
            self.asked(left.set, right.set).into_iter().partition(|predicate| predicate.may_fail);
        let mut conditions = Vec::new();
        for predicate in asked {
            match &predicate.sides {
                Some([(one, of_one), (other, of_other)])
                    if of_one.is_within(left.set) && of_other.is_within(right.set) =>
                {
                    keys.push((local(one, &left.columns)?, local(other, &right.columns)?));
                }
                Some([(one, of_one), (other, of_other)])
                    if of_one.is_within(right.set) && of_other.is_within(left.set) =>
                {
                    keys.push((local(other, &left.columns)?, local(one, &right.columns)?));
                }
                _ => conditions.push(Arc::clone(&predicate.condition)),
            }
        }
        let filter = self.join_filter(conditions, &left, &right)?;
        let all = [&left.columns[..], &right.columns[..]].concat();
        let (projection, columns) = match risky.is_empty() {
            true => self.projection(set, &all),
            false => (None, all),
        };
        let mode = self.mode(&left, &right);
        let plan: Arc<dyn ExecutionPlan> = if !keys.is_empty() {
            HashJoinExecBuilder::new(left.plan, right.plan, keys, JoinType::Inner)
                .with_filter(filter)
                .with_partition_mode(mode)
                .with_projection(projection)
                .build_exec()?
        } else if filter.is_some() {
            let join = NestedLoopJoinExecBuilder::new(left.plan, right.plan, JoinType::Inner);
            Arc::new(join.with_filter(filter).with_projection(projection).build()?)
        } else {
            projected(Arc::new(CrossJoinExec::new(left.plan, right.plan)), projection)?
        };
        filtered(Built { plan, columns, set }, &risky)
    }

    /// A semi or anti join.
    fn tested(&mut self, kept: Built, tested: Built, test: &ExistenceTest) -> Result<Built> {
        let set = kept.set | tested.set;
        let is_kept_less = self.cardinalities.rows(kept.set) <= self.cardinalities.rows(tested.set);
        let asked = self.asked(kept.set, tested.set);
        let (projection, columns) = match asked.is_empty() {
            true => self.projection(set, &kept.columns),
            false => (None, kept.columns.clone()),
        };
        let mut keys: Pairs = Vec::new();
        for (of_kept, of_tested) in &test.keys {
            let pair = (local(of_kept, &kept.columns)?, local(of_tested, &tested.columns)?);
            keys.push(if is_kept_less { pair } else { (pair.1, pair.0) });
        }
        let kind = match (is_kept_less, test.is_anti) {
            (true, false) => JoinType::LeftSemi,
            (true, true) => JoinType::LeftAnti,
            (false, false) => JoinType::RightSemi,
            (false, true) => JoinType::RightAnti,
        };
        let (left, right) = if is_kept_less { (kept, tested) } else { (tested, kept) };
        let conditions = test.condition.iter().map(Arc::clone).collect();
        let filter = self.join_filter(conditions, &left, &right)?;
        let mode = self.mode(&left, &right);
        let plan = HashJoinExecBuilder::new(left.plan, right.plan, keys, kind)
            .with_filter(filter)
            .with_partition_mode(mode)
            .with_null_equality(test.nulls)
            .with_projection(projection)
            .build_exec()?;
        filtered(Built { plan, columns, set }, &asked)
    }

    /// The mode of a join whose left side is put into a hash table.
    fn mode(&mut self, left: &Built, right: &Built) -> PartitionMode {
        let (rows, lookups) = (self.cardinalities.rows(left.set), self.cardinalities.rows(right.set));
        partition_mode(self.config, &HashTable { rows, schema: &left.plan.schema(), lookups })
    }

    /// The column of a class that stands for it in a set: the first, which is that of one of the parts of the set.
    fn representative(&self, class: &[usize], set: RelationSet) -> Option<usize> {
        class.iter().copied().find(|column| set.contains(self.graph.columns[*column].relation))
    }

    fn local_column(&self, place: usize, built: &Built) -> Result<Arc<dyn PhysicalExpr>> {
        local(&column(self.graph.columns[place].field.name(), place), &built.columns)
    }

    /// The columns of a join that are read above it: their places in the join, `None` if these are all, and in the graph.
    fn projection(&self, set: RelationSet, joined: &[usize]) -> (Option<Vec<usize>>, Vec<usize>) {
        let needed = self.needed(set);
        let mut places: Vec<usize> =
            (0..joined.len()).filter(|place| needed.binary_search(&joined[*place]).is_ok()).collect();
        if places.is_empty() && !joined.is_empty() {
            places.push(0);
        }
        if places.len() == joined.len() {
            return (None, joined.to_vec());
        }
        let columns = places.iter().map(|place| joined[*place]).collect();
        (Some(places), columns)
    }

    /// The columns that are read once a set is joined, in order.
    fn needed(&self, set: RelationSet) -> Vec<usize> {
        let graph = self.graph;
        let mut needed: Vec<usize> = graph.output.iter().flat_map(columns_of).collect();
        for class in graph.classes.iter().filter(|class| !class.relations.is_within(set)) {
            needed.extend(self.representative(&class.columns, set));
        }
        for predicate in graph.predicates.iter().filter(|predicate| !predicate.needs.is_within(set)) {
            needed.extend(columns_of(&predicate.condition));
        }
        for (place, relation) in graph.relations.iter().enumerate() {
            if let Some(test) = relation.test.as_ref().filter(|_| !set.contains(place)) {
                needed.extend(test.keys.iter().flat_map(|(kept, _)| columns_of(kept)));
                needed.extend(test.condition.iter().flat_map(columns_of));
            }
        }
        needed.sort_unstable();
        needed.dedup();
        needed
    }

    /// The conditions of a join of two sides.
    fn join_filter(
        &self,
        conditions: Vec<Arc<dyn PhysicalExpr>>,
        left: &Built,
        right: &Built,
    ) -> Result<Option<JoinFilter>> {
        if conditions.is_empty() {
            return Ok(None);
        }
        let condition = conjunction(conditions);
        let columns = columns_of(&condition);
        let indices = columns.iter().map(|column| {
            let place = |side: &Built| side.columns.iter().position(|other| other == column);
            match (place(left), place(right)) {
                (Some(index), _) => Ok(ColumnIndex { index, side: JoinSide::Left }),
                (None, Some(index)) => Ok(ColumnIndex { index, side: JoinSide::Right }),
                (None, None) => Err(internal_datafusion_err!("column {column} is on no side of a join")),
            }
        });
        let indices = indices.collect::<Result<Vec<_>>>()?;
        let fields = columns.iter().map(|column| Arc::clone(&self.graph.columns[*column].field));
        let schema = Schema::new(fields.collect::<Vec<_>>());
        Ok(Some(JoinFilter::new(local(&condition, &columns)?, indices, Arc::new(schema))))
    }
}

/// The hash table of a join.
pub(super) struct HashTable<'p> {
    pub(super) rows: f64,
    pub(super) schema: &'p Schema,
    /// Rows that are looked up in it.
    pub(super) lookups: f64,
}

/// The mode of the join with a hash table: small ones are collected, and shared by all partitions.
pub(super) fn partition_mode(config: &ConfigOptions, table: &HashTable<'_>) -> PartitionMode {
    let options = &config.optimizer;
    let rows_max = options.hash_join_single_partition_threshold_rows;
    if !options.repartition_joins || config.execution.target_partitions <= 1 {
        return PartitionMode::CollectLeft;
    }
    let bytes = table.rows * row_bytes(table.schema) as f64;
    let is_small = table.rows < rows_max as f64;
    let is_shared = rows_max > 0 && bytes < SHARED_BYTES_MAX && table.rows * SHARED_LOOKUPS < table.lookups;
    if is_small || is_shared { PartitionMode::CollectLeft } else { PartitionMode::Partitioned }
}

/// An expression of the graph over a plan with these columns.
fn local(expr: &Arc<dyn PhysicalExpr>, columns: &[usize]) -> Result<Arc<dyn PhysicalExpr>> {
    let localize = |node: Arc<dyn PhysicalExpr>| {
        let Some(told) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
        let place = columns.iter().position(|column| *column == told.index());
        let place = place.ok_or_else(|| internal_datafusion_err!("column {told} is not in its join"))?;
        Ok(Transformed::yes(column(told.name(), place)))
    };
    Arc::clone(expr).transform_up(localize).data()
}

/// The rows that fulfil predicates. Both sides of an AND may be computed for all rows: what may fail is asked of the rows that all before
/// it have left.
fn filtered(mut built: Built, predicates: &[&Predicate]) -> Result<Built> {
    let (risky, safe): (Vec<&Predicate>, Vec<&Predicate>) =
        predicates.iter().copied().partition(|predicate| predicate.may_fail);
    let steps = std::iter::once(safe).chain(risky.into_iter().map(|predicate| vec![predicate]));
    for step in steps.filter(|step| !step.is_empty()) {
        let conditions = step.iter().map(|predicate| local(&predicate.condition, &built.columns));
        let condition = conjunction(conditions.collect::<Result<Vec<_>>>()?);
        built.plan = Arc::new(FilterExec::try_new(condition, built.plan)?);
    }
    Ok(built)
}

/// A plan with these of its columns.
fn projected(plan: Arc<dyn ExecutionPlan>, projection: Option<Vec<usize>>) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(places) = projection else { return Ok(plan) };
    let schema = plan.schema();
    let columns = places.into_iter().map(|place| {
        let name = schema.field(place).name();
        ProjectionExpr { expr: column(name, place), alias: name.clone() }
    });
    Ok(Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), plan)?))
}

fn row_bytes(schema: &Schema) -> usize {
    let bytes = |data_type: &DataType| data_type.primitive_width().unwrap_or(TEXT_BYTES);
    schema.fields().iter().map(|field| bytes(field.data_type())).sum::<usize>().max(1)
}
