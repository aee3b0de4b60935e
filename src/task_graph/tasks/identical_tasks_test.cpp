#include "task_graph/tasks/identical_tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "task_graph/tasks/testing/hand_made.h"

namespace tessera {
namespace {

using testing::ElementsAre;

const KernelCall kDouble{"scalar.mul", {}, {2}, ""};
const KernelCall kTriple{"scalar.mul", {}, {3}, ""};

MeshPtr two_ranks(Rank first) {
  return std::make_shared<Mesh>(Shape{2}, std::vector<std::string>{"dp"},
                                std::vector<Rank>{first, first + 1});
}

/// By task, the number of the first one that is like it.
std::vector<int> likes(HandMade& made) {
  std::vector<int> list;
  for (TaskId identical : identical_tasks(made.finish())) list.push_back(identical.value());
  return list;
}

TEST(IdenticalTasks, TheSameKernelOnTheSameTypesIsAlikeWhateverItsName) {
  HandMade made(two_ranks(0));
  RegisterIndex y = made.input("x", "f32[8@dp]");
  for (const char* name : {"a", "b", "c"}) y = made.compute(name, kDouble, {y}, "f32[8@dp]");
  made.result("y", y);
  EXPECT_THAT(likes(made), ElementsAre(0, 1, 1, 1, 4));  // feed, a, b, c, fetch
}

TEST(IdenticalTasks, AnotherParameterExtentPlacementOrMeshIsOtherWork) {
  HandMade made(two_ranks(0));
  const RegisterIndex x = made.input("x", "f32[8@dp]");
  const RegisterIndex long_x = made.input("long x", "f32[16@dp]");
  const RegisterIndex whole_x = made.input("whole x", "f32[8]");
  made.compute("a", kDouble, {x}, "f32[8@dp]");
  made.compute("parameter", kTriple, {x}, "f32[8@dp]");
  made.compute("extent", kDouble, {long_x}, "f32[16@dp]");
  made.compute("placement", kDouble, {whole_x}, "f32[8]");
  made.compute("again", kDouble, {x}, "f32[8@dp]");
  const RegisterIndex sent = made.exchange("gather", x, "f32[8]");
  made.place_on(two_ranks(2));
  const RegisterIndex far = made.exchange("send", sent, "f32[8]");
  made.compute("mesh", kDouble, {far}, "f32[8]");
  const std::vector<int> list = likes(made);
  EXPECT_THAT(std::vector<int>(list.begin(), list.begin() + 9),
              ElementsAre(0, 1, 2, 3, 4, 1, 6, 7, 8));
}

TEST(IdenticalTasks, ExchangesBetweenTheSamePlacementsAreAlike) {
  HandMade made(two_ranks(0));
  const RegisterIndex x = made.input("x", "f32[8@dp]");
  const RegisterIndex y = made.compute("y", kDouble, {x}, "f32[8@dp]");
  const RegisterIndex sum = made.compute("sum", kDouble, {x}, "f32[8] {partial sum: dp}");
  made.exchange("gather y", y, "f32[8]");
  made.exchange("gather y again", y, "f32[8]");
  made.exchange("reduce", sum, "f32[8]");
  made.exchange("reduce and scatter", sum, "f32[8@dp]");
  const std::vector<int> list = likes(made);
  EXPECT_THAT(std::vector<int>(list.begin(), list.begin() + 7), ElementsAre(0, 1, 2, 3, 3, 5, 6));
}

}  // namespace
}  // namespace tessera
