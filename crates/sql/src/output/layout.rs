//! Which columns of a table a terminal shows, and how wide. Pure arithmetic: no text, no terminal.

/// Columns that a cell takes besides its text: a space on each side and the rule after it.
const FRAME: usize = 3;
/// A text column is not made narrower than this to fit more columns in.
const TEXT_MIN: usize = 8;
/// A column of numbers is not made narrower than this, because a cut number is wrong.
const NUMBER_MIN: usize = 24;

/// What one column of the answer needs, in columns of the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Need {
    /// Width of the name.
    pub(super) header: usize,
    /// Width of the widest value seen.
    pub(super) body: usize,
    /// Whether the values are numbers.
    pub(super) number: bool,
}

impl Need {
    fn full(self) -> usize {
        self.header.max(self.body).max(1)
    }

    fn min(self) -> usize {
        if self.number {
            self.full().min(self.body.clamp(self.header.min(TEXT_MIN), NUMBER_MIN)).max(1)
        } else {
            self.full().min(TEXT_MIN)
        }
    }
}

/// One column of the table on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// The answer's column `index`, `width` columns wide.
    Column { index: usize, width: usize },
    /// A mark for the columns that are left out.
    Elided,
}

/// The table's columns on the screen, from left to right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// Left to right.
    pub(super) slots: Vec<Slot>,
}

impl Layout {
    /// How many of the answer's columns are shown.
    pub(super) fn columns_shown(&self) -> usize {
        self.slots.iter().filter(|slot| matches!(slot, Slot::Column { .. })).count()
    }
}

/// How many columns from either end of a table can be shown at all; the others need not be measured.
pub(super) fn reach(columns: usize, width: Option<usize>) -> usize {
    width.map_or(columns, |width| (width / (FRAME + 1) + 1).min(columns))
}

/// Lays out a table whose columns have these `needs` within `width` columns of the terminal.
///
/// Everything at full width if that fits; else the widest columns are narrowed; else columns are left out of the middle.
/// One column is always shown, whatever the width.
pub(super) fn lay_out(needs: &[Need], width: Option<usize>) -> Layout {
    let Some(width) = width else {
        let slots = needs.iter().enumerate().map(|(index, need)| Slot::Column { index, width: need.full() });
        return Layout { slots: slots.collect() };
    };
    let (left, right) = choose(needs, width);
    let elided = left + right < needs.len();
    let shown: Vec<usize> = (0..left).chain(needs.len() - right..needs.len()).collect();
    let frame = 1 + FRAME * shown.len() + if elided { FRAME + 1 } else { 0 };
    let widths =
        share(&shown.iter().map(|index| needs[*index]).collect::<Vec<_>>(), width.saturating_sub(frame));
    let mut slots: Vec<Slot> =
        shown.into_iter().zip(widths).map(|(index, width)| Slot::Column { index, width }).collect();
    if elided {
        slots.insert(left, Slot::Elided);
    }
    Layout { slots }
}

/// How many columns to show from the left and from the right.
fn choose(needs: &[Need], width: usize) -> (usize, usize) {
    // One extra column for the leading border.
    let everything: usize = needs.iter().map(|need| need.min() + FRAME).sum();
    if everything < width {
        return (needs.len(), 0);
    }
    let mut budget = width.saturating_sub(1 + FRAME + 1);
    let (mut left, mut right) = (0, 0);
    while left + right < needs.len() {
        let from_left = left <= right;
        let need = if from_left { needs[left] } else { needs[needs.len() - 1 - right] };
        let cost = need.min() + FRAME;
        if cost > budget && left > 0 {
            break;
        }
        budget = budget.saturating_sub(cost);
        if from_left { left += 1 } else { right += 1 }
    }
    (left, right)
}

/// Divides `available` columns: no column gets more than it needs or less than its minimum; otherwise all get the same.
fn share(needs: &[Need], available: usize) -> Vec<usize> {
    let at = |level: usize| needs.iter().map(move |need| level.clamp(need.min(), need.full()));
    let (mut low, mut high) = (0, available);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if at(middle).sum::<usize>() <= available { low = middle } else { high = middle - 1 }
    }
    let mut widths: Vec<usize> = at(low).collect();
    let mut spare = available.saturating_sub(widths.iter().sum());
    for (width, need) in widths.iter_mut().zip(needs) {
        if spare > 0 && *width < need.full() {
            *width += 1;
            spare -= 1;
        }
    }
    if let [only] = widths.as_mut_slice() {
        *only = (*only).min(available.max(1));
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(header: usize, body: usize) -> Need {
        Need { header, body, number: false }
    }

    fn columns(layout: &Layout) -> Vec<(usize, usize)> {
        let shown = layout.slots.iter().filter_map(|slot| match slot {
            Slot::Column { index, width } => Some((*index, *width)),
            Slot::Elided => None,
        });
        shown.collect()
    }

    fn total(layout: &Layout) -> usize {
        let width = |slot: &Slot| match slot {
            Slot::Column { width, .. } => *width,
            Slot::Elided => 1,
        };
        1 + layout.slots.iter().map(|slot| width(slot) + FRAME).sum::<usize>()
    }

    #[test]
    fn what_fits_gets_its_full_width() {
        let layout = lay_out(&[text(2, 5), text(9, 3)], Some(80));
        assert_eq!(columns(&layout), [(0, 5), (1, 9)]);
    }

    #[test]
    fn only_the_widest_columns_are_narrowed() {
        let layout = lay_out(&[text(2, 5), text(4, 300), text(4, 12)], Some(40));
        assert_eq!(columns(&layout), [(0, 5), (1, 13), (2, 12)]);
        assert_eq!(total(&layout), 40);
    }

    #[test]
    fn numbers_are_narrowed_last() {
        let number = Need { header: 3, body: 20, number: true };
        let layout = lay_out(&[number, text(4, 100)], Some(40));
        assert_eq!(columns(&layout), [(0, 20), (1, 13)]);
    }

    #[test]
    fn too_many_columns_are_left_out_of_the_middle() {
        let layout = lay_out(&vec![text(10, 10); 10_000], Some(60));
        let shown: Vec<usize> = columns(&layout).into_iter().map(|(index, _)| index).collect();
        assert_eq!(shown, [0, 1, 2, 9_998, 9_999]);
        assert!(layout.slots.contains(&Slot::Elided));
        assert!(total(&layout) <= 60);
    }

    #[test]
    fn no_width_means_no_limit() {
        let layout = lay_out(&vec![text(10, 1000); 300], None);
        assert_eq!(layout.columns_shown(), 300);
        assert_eq!(columns(&layout)[299], (299, 1000));
    }

    proptest! {
        #[test]
        fn a_table_never_overflows_a_terminal_that_can_hold_one_column(
            needs in proptest::collection::vec((0usize..40, 0usize..200, any::<bool>()), 1..60),
            width in 32usize..200,
        ) {
            let needs: Vec<Need> =
                needs.into_iter().map(|(header, body, number)| Need { header, body, number }).collect();
            let layout = lay_out(&needs, Some(width));
            prop_assert!(layout.columns_shown() >= 1);
            prop_assert!(total(&layout) <= width, "{} > {}: {:?}", total(&layout), width, layout);
            let reach = reach(needs.len(), Some(width));
            for (index, width) in columns(&layout) {
                prop_assert!(width >= 1 && width <= needs[index].full());
                prop_assert!(index < reach || index >= needs.len() - reach);
            }
            let elided = layout.slots.contains(&Slot::Elided);
            prop_assert_eq!(elided, layout.columns_shown() < needs.len());
        }

        #[test]
        fn a_tiny_terminal_gets_one_column(width in 0usize..8, body in 0usize..100) {
            let layout = lay_out(&[text(5, body), text(5, body)], Some(width));
            prop_assert_eq!(layout.columns_shown(), 1);
        }
    }
}
