#include "compiler/plan/check_plan.h"

#include <fmt/format.h>

#include <limits>

#include "base/error.h"

namespace tessera {
namespace {

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

struct PlanNumber {
  const char* name;
  int64_t value;
  int64_t smallest;
  int64_t largest = kAny;
};

void check_range(const Plan& plan, const PlanNumber& number) {
  if (number.value >= number.smallest && number.value <= number.largest) return;
  refuse_config(fmt::format("plan '{}' has {} = {}", plan.name, number.name, number.value),
                number.largest == kAny
                    ? fmt::format("it is a number of at least {}", number.smallest)
                    : fmt::format("it is a number from {} to {}", number.smallest, number.largest),
                fmt::format("set Plan::{} to such a number, or leave it out", number.name));
}

}  // namespace

void check(const Plan& plan) {
  for (const PlanNumber& number :
       {PlanNumber{"micro_batches", plan.micro_batches, 1},
        PlanNumber{"accumulate", plan.accumulate, 1},
        PlanNumber{"max_in_flight", plan.max_in_flight, 0},
        PlanNumber{"collective_matmul", plan.collective_matmul, kAutoChunks, kMaxChunks},
        PlanNumber{"prefetch_window", plan.prefetch_window.value(), 0},
        PlanNumber{"bucket", plan.bucket.value(), 0},
        PlanNumber{"offload_window", plan.offload_window.value(), 0}})
    check_range(plan, number);
  for (const NamedMesh& mesh : plan.meshes)
    if (!mesh.mesh)
      refuse_config(fmt::format("plan '{}' has a mesh '{}' that is null", plan.name, mesh.name),
                    "a mesh says which ranks the plan has",
                    "set NamedMesh::mesh, such as to std::make_shared<const Mesh>(parse_mesh("
                    "\"dp=2\")), or remove the entry of Plan::meshes");
}

}  // namespace tessera
