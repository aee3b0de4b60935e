#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/text/text.h"
#include "ir/ops/operator.h"

namespace tessera {
namespace {

TEST(Catalogue, HasEveryKindOnce) {
  const std::vector<std::string> names = split_text(
      "neg abs exp log sqrt rsqrt tanh logistic erf sin cos floor ceil round log1p expm1 square "
      "sign "
      "add_scalar mul_scalar max_scalar min_scalar pow_scalar "
      "add sub mul div max min pow floordiv mod and or xor shift_left shift_right "
      "compare not select cast stop_gradient "
      "constant iota random_uniform dot_general "
      "broadcast reshape transpose slice pad concat reduce "
      "gather scatter_add take_along_dim scatter_add_along_dim gather_nd scatter_nd scatter_add_nd "
      "argmax argmin sort top_k cumsum reverse "
      "grouped_matmul grouped_outer "
      "dynamic_slice dynamic_update "
      "attention attention_grad "
      "convolution convolution_grad_input convolution_grad_weight "
      "max_pool max_pool_grad average_pool average_pool_grad resize resize_grad",
      ' ');
  const std::set<std::string_view> expected(names.begin(), names.end());
  std::multiset<std::string_view> found;
  for (const Operator* op : all_operators()) found.insert(op->name);
  EXPECT_EQ(std::set<std::string_view>(found.begin(), found.end()), expected);
  EXPECT_EQ(found.size(), expected.size());
}

TEST(Catalogue, NamesTheOperatorsThatDecide) {
  std::set<std::string_view> deciding;
  for (const Operator* op : all_operators())
    if (op->decision != nullptr) deciding.insert(op->name);
  EXPECT_EQ(deciding,
            (std::set<std::string_view>{"argmax", "argmin", "cast", "ceil", "compare", "floor",
                                        "max_pool_grad", "round", "sign", "sort", "top_k"}));
}

TEST(Catalogue, DefinesEveryOperatorWhole) {
  for (const Operator* op : all_operators()) {
    EXPECT_TRUE(op->infer && op->rule && op->work && op->kernel && op->reference && op->tolerance)
        << op->name;
    EXPECT_EQ(&find_operator(op->name), op);
  }
}

TEST(Catalogue, LetsNoGradientThroughWhatIsFlatOrStopped) {
  for (std::string_view name : {"floor", "sign", "compare", "not", "stop_gradient", "constant",
                                "iota", "random_uniform", "and", "mod"})
    EXPECT_EQ(find_operator(name).gradient, nullptr) << name;
}

TEST(Catalogue, NamesTheNearestOperator) {
  try {
    find_operator("logistik");
    FAIL() << "'logistik' was found";
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()),
              "'logistik' is not an operator\n  why: the catalogue has " +
                  std::to_string(all_operators().size()) +
                  " operators, none of this name\n  fix: did you mean 'logistic'?");
    EXPECT_EQ(error.exit_code(), ExitCode::kBadData);
  }
}

TEST(Catalogue, AnUnknownOperatorMayBeOneOfTheUserWithoutItsSet) {
  for (const char* name : {"hard_swish_of_mine", "my_activation"}) {
    try {
      find_operator(name);
      FAIL() << name << " was found";
    } catch (const UserError& error) {
      EXPECT_EQ(error.fix(),
                "see docs/operators.md for their names; an operator of your own needs a graph or a "
                "Network with its OperatorSet");
    }
  }
}

}  // namespace
}  // namespace tessera
