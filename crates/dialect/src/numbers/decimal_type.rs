use datafusion::arrow::datatypes::DataType;

/// The most digits of a decimal.
const PRECISION_MAX: i16 = 38;
/// Digits behind the point that a result keeps even if its digits before it may then be too many.
const SCALE_KEPT: i16 = 6;

/// The type of a decimal: `precision` digits, `scale` of them behind the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DecimalType {
    pub precision: u8,
    pub scale: i8,
}

impl DecimalType {
    /// The decimal type that an Arrow type is, if it is one.
    pub(super) fn of(kind: &DataType) -> Option<Self> {
        match *kind {
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale) => Some(Self { precision, scale }),
            _ => None,
        }
    }

    pub(super) fn data_type(self) -> DataType {
        DataType::Decimal128(self.precision, self.scale)
    }

    /// The type of a quotient, as Spark and SQL Server have it: `s1 + p2 + 1` digits behind the point and at least six, and as
    /// many before it as it may need.
    pub(super) fn quotient(self, by: Self) -> Self {
        let (this, by) = (self.digits(), by.digits());
        Self::adjusted(this.before + by.behind, (this.behind + by.before + by.behind + 1).max(SCALE_KEPT))
    }

    /// The type of a product, as Spark and SQL Server have it: the digits of both, and one more.
    pub(super) fn product(self, by: Self) -> Self {
        let (this, by) = (self.digits(), by.digits());
        Self::adjusted(this.before + by.before + 1, this.behind + by.behind)
    }

    /// The type of a sum or difference: the digits of both, and one more before the point.
    pub(super) fn sum(self, and: Self) -> Self {
        let (this, and) = (self.digits(), and.digits());
        let (before, behind) = (this.before.max(and.before) + 1, this.behind.max(and.behind));
        Self { precision: (before + behind).clamp(1, PRECISION_MAX) as u8, scale: behind as i8 }
    }

    /// The type of an average: four digits more behind the point, as in Spark, and at least six.
    pub(super) fn average(self) -> Self {
        let digits = self.digits();
        Self::adjusted(digits.before, (digits.behind + 4).max(SCALE_KEPT))
    }

    /// The type for averages of two values: one digit more behind the point. `None` if there is no room for it.
    pub(super) fn half(self) -> Option<Self> {
        let digits = self.digits();
        let fits = digits.before + digits.behind < PRECISION_MAX;
        fits.then(|| Self::adjusted(digits.before, digits.behind + 1))
    }

    fn digits(self) -> Digits {
        let (precision, scale) = (i16::from(self.precision), i16::from(self.scale));
        Digits { before: precision - scale, behind: scale.max(0) }
    }

    /// A type with that many digits before and behind the point. If they are too many, those behind it go, down to
    /// [`SCALE_KEPT`].
    fn adjusted(before: i16, behind: i16) -> Self {
        let behind = if before + behind > PRECISION_MAX {
            (PRECISION_MAX - before).max(behind.min(SCALE_KEPT))
        } else {
            behind
        };
        let precision = (before + behind).clamp(1, PRECISION_MAX);
        Self { precision: precision as u8, scale: behind as i8 }
    }
}

/// Digits on the two sides of the point.
#[derive(Clone, Copy)]
struct Digits {
    before: i16,
    behind: i16,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(precision: u8, scale: i8) -> DecimalType {
        DecimalType { precision, scale }
    }

    /// From Spark 3.5's DecimalPrecision, and SQL Server's documentation of precision and scale.
    #[test]
    fn quotients_have_the_digits_that_spark_gives_them() {
        for (left, right, quotient) in [
            ((10, 2), (1, 0), (14, 6)),
            ((10, 2), (10, 2), (23, 13)),
            ((15, 4), (15, 4), (35, 20)),
            ((25, 2), (25, 2), (38, 13)),
            ((38, 10), (38, 10), (38, 6)),
            ((38, 38), (38, 0), (38, 38)),
            ((38, 0), (38, 38), (38, 6)),
            ((5, 0), (5, 0), (11, 6)),
        ] {
            let found = decimal(left.0, left.1).quotient(decimal(right.0, right.1));
            assert_eq!(found, decimal(quotient.0, quotient.1), "{left:?} / {right:?}");
        }
    }

    #[test]
    fn products_have_all_digits_or_at_least_six_behind_the_point() {
        for (left, right, product) in [
            ((10, 2), (10, 2), (21, 4)),
            ((15, 2), (23, 2), (38, 4)),
            ((38, 4), (23, 2), (38, 6)),
            ((38, 13), (38, 13), (38, 6)),
            ((38, 20), (18, 18), (38, 19)),
        ] {
            let found = decimal(left.0, left.1).product(decimal(right.0, right.1));
            assert_eq!(found, decimal(product.0, product.1), "{left:?} * {right:?}");
        }
    }

    #[test]
    fn averages_have_four_digits_more_and_at_least_six() {
        for (of, average) in [
            ((7, 2), (11, 6)),
            ((10, 0), (16, 6)),
            ((10, 1), (15, 6)),
            ((38, 10), (38, 10)),
            ((38, 2), (38, 6)),
            ((38, 38), (38, 38)),
        ] {
            assert_eq!(decimal(of.0, of.1).average(), decimal(average.0, average.1), "{of:?}");
        }
    }

    #[test]
    fn a_half_needs_one_digit() {
        assert_eq!(decimal(7, 2).half(), Some(decimal(8, 3)));
        assert_eq!(decimal(37, 37).half(), Some(decimal(38, 38)));
        assert_eq!(decimal(38, 2).half(), None);
    }
}
