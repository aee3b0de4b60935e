// Functions for definitions of operators, built-in families and users' own alike: refusals, common
// sharding rules, work and tolerances.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/ops/operator.h"

namespace tessera::detail {

/// The gradients by input, as Operator::gradient returns them.
using Gradients = std::vector<std::optional<ValueId>>;
/// The sets of ShardingRule::linear.
using LinearSets = std::vector<std::vector<int>>;

/// Throws a UserError (65) whose first line is "KIND 'NAME': WHAT".
[[noreturn]] void refuse(std::string_view kind, const OpView& op, const std::string& what,
                         const std::string& why, const std::string& fix);

/// Refuses an op that does not have `count` operands.
void expect_operands(std::string_view kind, const OpView& op, int64_t count);

/// Refuses operand `input` unless its element type is one of `allowed`, where f32 stands for f16
/// and bf16, too. `letter` is its name in messages: "a", "x", "table".
void expect_dtype(std::string_view kind, const OpView& op, size_t input, std::string_view letter,
                  const std::vector<DType>& allowed);

/// Refuses operands whose element types differ: "dot_general 'y': a f32[8,16] does not fit b
/// bf16[16,4]".
void expect_equal_dtypes(std::string_view kind, const OpView& op, int a, std::string_view letter_a,
                         int b, std::string_view letter_b);

/// Refuses operands whose types differ: "add 'sum': a f32[8,16] does not fit b f32[4,16]".
void expect_equal_types(std::string_view kind, const OpView& op, int a, std::string_view letter_a,
                        int b, std::string_view letter_b);

/// The attribute as a shape. Refuses negative extents and more than kMaxRank extents.
Shape shape_attribute(std::string_view kind, const OpView& op,
                      std::string_view attribute = "shape");

/// The attribute as an index of one of `rank` dims. Refuses others.
int dim_attribute(std::string_view kind, const OpView& op, int rank,
                  std::string_view attribute = "dim");

/// The attribute "dtype". Refuses a text that names no element type.
DType dtype_attribute(std::string_view kind, const OpView& op);

/// The element type of a sum of products of `operand`: that of the operand, or f32 where the op has
/// the attribute dtype = "f32". With it, sums of f16 and bf16 are not rounded to 16 bits.
///   refuses  other values of the attribute, and operands of integers with it
DType sum_dtype(std::string_view kind, const OpView& op, DType operand);

/// A kernel call with defaults for most parts.
KernelCall kernel_call(std::string kernel, std::vector<LocalInt> ints = {},
                       std::vector<double> reals = {}, std::string text = {});

// Sharding rules.

/// Appends a factor and returns its index.
int add_factor(ShardingRule& rule, std::string name, int64_t extent,
               FactorKind kind = FactorKind::kParallel, ReduceOp reduce = ReduceOp::kSum);

/// Appends one parallel factor for each dim of `shape`, named prefix0, prefix1, ..., and returns
/// them as the factors of an operand.
OperandFactors add_factors(ShardingRule& rule, const Shape& shape, std::string_view prefix = "d");

/// The factors of an operand that has the dims of `head`, then those of `tail`.
OperandFactors joined(OperandFactors head, const OperandFactors& tail);

/// The rule of element-wise ops: all operands and results share one parallel factor per dim, d0,
/// d1, ...
ShardingRule elementwise_rule(const OpView& op, LinearSets linear);

// Work.

// Operations per element. An op that computes nothing still counts one, for its pass over memory.
inline constexpr double kCheap = 1;
inline constexpr double kDivision = 4;
inline constexpr double kTranscendental = 12;

/// The number of elements of a tensor, for estimates and bounds.
double elements_of(const Shape& shape);

/// The bytes of all operands and results, each counted once.
Bytes operand_bytes(const OpView& op);

/// `flops_per_element` operations for each element of result 0; every operand is moved once.
Work elementwise_work(const OpView& op, double flops_per_element);

// Tolerances (see Operator::tolerance). They are of a result in f32; ir/ops/internal/rounding.h
// adds the rounding to f16 or bf16.

/// The smallest normal f32. A kernel may round smaller numbers to zero.
inline constexpr double kSmallestNormal = 0x1p-126;

// Numbers of f32 roundings that a result may have.
inline constexpr double kExact = 0;
inline constexpr double kOneRounding = 1;
// For instance a division by an approximate reciprocal that is refined.
inline constexpr double kFewRoundings = 4;
// Four units in the last place, which vector libraries of mathematics promise.
inline constexpr double kLibraryRoundings = 8;

/// Zeros, for an exact result.
std::vector<double> exact(const ReferenceCall& call, int output);

/// 1 for an integer that f32 may have to round, else 0.
double integer_roundings(double value);

/// The largest error of `roundings` roundings of size |value|; infinite where f32 may overflow.
double rounding_error(double value, double roundings);

/// rounding_error of every element of a result.
std::vector<double> rounded(const ReferenceCall& call, int output, double roundings);

/// The largest error of a sum of `terms` products or numbers in any order, when their absolute
/// values add up to `absolute_sum`: n u / (1 - n u) times that sum. Where the result is f16 or
/// bf16, ranks round their parts of the sum to it: twice, when two axes are reduced one after the
/// other.
///   source  Higham, Accuracy and Stability of Numerical Algorithms, section 3.1
double summation_error(double terms, double absolute_sum, DType result = DType::kF32);

}  // namespace tessera::detail
