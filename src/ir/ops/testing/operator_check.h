// Checks an operator by its definition alone: kernel = plain reference, gradient = finite
// differences, every division = serial.
//
// Test code: link tessera_operator_check. It knows no operator by name: it reads the definition and
// a case.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "ir/ops/operator_set.h"

namespace tessera::operator_testing {

/// The range from which the elements of an operand are sampled: f32 uniformly in [low, high), i32
/// from the whole numbers low..high, bool with equal probability.
struct Fill {
  double low = -1;
  double high = 1;
};

/// One op. Its operands are sampled under its text, so that a case always has the same ones.
struct OperatorCase {
  std::string kind;
  std::vector<TensorType> inputs;
  Attributes attributes = {};
  std::vector<Fill> fills = {};  // by input; further inputs have the default
  bool bitwise = false;          // does a divided run give the same bits as the serial run?
  /// Replaces operands that must fit the others, such as a log-sum-exp.
  std::function<void(const OperatorCase&, std::vector<ReferenceTensor>&)> complete = {};
  OperatorSetPtr operators = nullptr;  // the set of `kind`; nullptr: it is built in
};
/// `dot_general(f32[2,3], f32[3,4]) {spec="mk,kn->mn"}`.
std::string to_text(const OperatorCase& given);
std::ostream& operator<<(std::ostream& stream, const OperatorCase& given);

/// The operands of a case, representable in their element types.
std::vector<ReferenceTensor> sample_inputs(const OperatorCase& given);
/// The results of the plain reference.
std::vector<ReferenceTensor> reference_results(const Operator& op, const OperatorCase& given,
                                               const std::vector<ReferenceTensor>& inputs);

/// The rule covers every dim of every operand: extent = factor extent x unit. Every result has
/// every parallel factor.
::testing::AssertionResult check_rule(const Operator& op, const OperatorCase& given);

/// The kernel gives the reference's results within the operator's tolerance, and so does the plain
/// twin of a built-in kernel.
::testing::AssertionResult check_kernel(const Operator& op, const OperatorCase& given);

/// The gradient of sum(weights * result 0) is its central difference, for every element of every
/// f32 operand. Passes when no gradient flows through the operator or its result is not f32.
::testing::AssertionResult check_gradient(const Operator& op, const OperatorCase& given);

/// The parts that the ranks of a mesh compute, joined, are the serial result. This is checked for
/// every factor that may be divided, in 2 and 3 parts and in more parts than it has units, and for
/// any two factors (or one twice) on a mesh of 2 x 2.
::testing::AssertionResult check_division(const Operator& op, const OperatorCase& given);

/// The work and the workspace of a call, whole and for the ranks of every division of
/// check_division: the workspace is that of the bound kernel, the parts together compute and move
/// at least what the whole does (without windows), and the whole is what the operator declares.
::testing::AssertionResult check_work(const Operator& op, const OperatorCase& given);

/// For each linear set of the rule: op(x + y) = op(x) + op(y), where the operands of the set are x
/// + y and the others are whole.
::testing::AssertionResult check_linearity(const Operator& op, const OperatorCase& given);

/// Runs all of these checks on the operator that the case names, and returns the first failure.
::testing::AssertionResult check_operator(const OperatorCase& given);

}  // namespace tessera::operator_testing
