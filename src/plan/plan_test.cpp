#include "plan/plan.h"

#include <gtest/gtest.h>

#include "lower/lower.h"

namespace tessera {
namespace {

Plan plan_of(const std::string& keys) {
  return parse_plan(
      parse_json("{\"format\": 1, \"mesh\": {\"tp\": 2}, " + keys + "\"marks\": []}", "plan.json"),
      "plan.json");
}

/// What the plan says of products, written and read again.
int64_t written_and_read(const std::string& keys) {
  return parse_plan(to_document(plan_of(keys), Graph()), "plan.json").split_matmuls;
}

TEST(Plan, SaysIntoHowManyStripesProductsAreTaken) {
  EXPECT_EQ(plan_of("").split_matmuls, 1);
  EXPECT_EQ(plan_of("\"split_matmuls\": \"off\", ").split_matmuls, 1);
  EXPECT_EQ(plan_of("\"split_matmuls\": \"auto\", ").split_matmuls, kStripesThatPay);
  EXPECT_EQ(plan_of("\"split_matmuls\": 4, ").split_matmuls, 4);
  for (const char* keys : {"", "\"split_matmuls\": \"auto\", ", "\"split_matmuls\": 4, "})
    EXPECT_EQ(written_and_read(keys), plan_of(keys).split_matmuls) << keys;
  EXPECT_EQ(compile_options(plan_of("\"split_matmuls\": 4, ")).split_matmuls.stripes, 4);
}

}  // namespace
}  // namespace tessera
