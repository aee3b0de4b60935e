#include "compiler/lower/internal/shared_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <random>

namespace tessera {
namespace {

struct SharedBytesPlaced {
  RegisterForm form;
  int64_t offset = 0;
};

SharedBytesPlaced in_arena(int64_t offset, int64_t size, int mesh = 0) {
  RegisterForm reg;
  reg.mesh = MeshIndex(mesh);
  reg.size = Bytes(size);
  return {reg, offset};
}

SharedBytesPlaced in_variable(int variable) {
  RegisterForm reg;
  reg.storage = Register::Storage::kVariable;
  reg.variable = variable;
  reg.size = Bytes(64);
  return {reg};
}

RegisterTable table_of(std::initializer_list<SharedBytesPlaced> list) {
  RegisterTable registers;
  for (const SharedBytesPlaced& reg : list) registers.push_back(reg.form, reg.offset);
  return registers;
}

std::vector<RegisterIndex> all_of(const RegisterTable& registers) {
  const auto indices = registers.indices();
  return {indices.begin(), indices.end()};
}

TEST(SharedBytes, ThoseThatOverlapAreFoundAndNeighboursAreNot) {
  // Bytes 0 to 64, 64 to 128, 32 to 96 and, on another mesh, 0 to 256.
  const RegisterTable registers =
      table_of({in_arena(0, 64), in_arena(64, 64), in_arena(32, 64), in_arena(0, 256, 1)});
  SharedBytes shared(registers, all_of(registers));
  EXPECT_THAT(shared.with(RegisterIndex(0)),
              testing::ElementsAre(RegisterIndex(0), RegisterIndex(2)));
  EXPECT_THAT(shared.with(RegisterIndex(1)),
              testing::ElementsAre(RegisterIndex(1), RegisterIndex(2)));
  EXPECT_THAT(shared.with(RegisterIndex(3)), testing::ElementsAre(RegisterIndex(3)));
}

TEST(SharedBytes, RegistersOfOneVariableShareItsMemoryAndNoArena) {
  const RegisterTable registers =
      table_of({in_variable(0), in_variable(1), in_variable(0), in_arena(0, 64)});
  SharedBytes shared(registers, all_of(registers));
  EXPECT_THAT(shared.with(RegisterIndex(2)),
              testing::ElementsAre(RegisterIndex(0), RegisterIndex(2)));
  EXPECT_THAT(shared.with(RegisterIndex(3)), testing::ElementsAre(RegisterIndex(3)));
}

TEST(SharedBytes, ARegisterThatIsNotInTheListFindsThoseThatAre) {
  const RegisterTable registers = table_of({in_arena(0, 64), in_arena(0, 64), in_arena(0, 64)});
  const std::vector<RegisterIndex> list{RegisterIndex(2), RegisterIndex(0)};
  SharedBytes shared(registers, list);
  EXPECT_THAT(shared.with(RegisterIndex(1)),
              testing::ElementsAre(RegisterIndex(0), RegisterIndex(2)));
  EXPECT_THAT(SharedBytes(registers, {}).with(RegisterIndex(1)), testing::IsEmpty());
}

/// Compares each pair.
std::vector<RegisterIndex> found_by_comparing(const RegisterTable& registers,
                                              const std::vector<RegisterIndex>& list,
                                              RegisterIndex with) {
  std::vector<RegisterIndex> found;
  const Register& a = registers[with];
  for (RegisterIndex index : list) {
    const Register& b = registers[index];
    if (a.mesh != b.mesh || a.storage != b.storage) continue;
    if (a.storage == Register::Storage::kVariable
            ? a.variable == b.variable
            : a.offset < b.offset + b.size.value() && b.offset < a.offset + a.size.value())
      found.push_back(index);
  }
  return found;
}

TEST(SharedBytes, RandomRegistersGiveWhatComparingAllPairsGives) {
  std::mt19937 engine(1);
  const auto draw = [&](int limit) { return static_cast<int>(engine() % limit); };
  for (int round = 0; round < 50; ++round) {
    RegisterTable registers;
    std::vector<RegisterIndex> list;
    for (int i = 0; i < 120; ++i) {
      SharedBytesPlaced reg = draw(8) == 0 ? in_variable(draw(3)) : in_arena(draw(200), draw(40));
      reg.form.mesh = MeshIndex(draw(2));
      const RegisterIndex index = registers.push_back(reg.form, reg.offset);
      if (draw(2) == 0) list.push_back(index);
    }
    SharedBytes shared(registers, list);
    for (RegisterIndex reg : registers.indices())
      ASSERT_EQ(shared.with(reg), found_by_comparing(registers, list, reg))
          << "round " << round << " register " << reg.value();
  }
}

TEST(SharedBytes, HiddenRegistersAreLeftOutUntilTheyAreShown) {
  const RegisterTable registers =
      table_of({in_arena(0, 64), in_arena(32, 64), in_arena(32, 64), in_variable(0)});
  const std::vector<RegisterIndex> list{RegisterIndex(0), RegisterIndex(1), RegisterIndex(3)};
  SharedBytes shared(registers, list);
  shared.hide(RegisterIndex(1));
  shared.hide(RegisterIndex(2));  // not in the list
  EXPECT_THAT(shared.with(RegisterIndex(0)), testing::ElementsAre(RegisterIndex(0)));
  EXPECT_THAT(shared.with(RegisterIndex(3)), testing::ElementsAre(RegisterIndex(3)));
  shared.show(RegisterIndex(1));
  shared.show(RegisterIndex(2));
  EXPECT_THAT(shared.with(RegisterIndex(0)),
              testing::ElementsAre(RegisterIndex(0), RegisterIndex(1)));
}

TEST(SharedBytes, RandomRegistersThatAreHiddenAreLeftOut) {
  std::mt19937 engine(2);
  const auto draw = [&](int limit) { return static_cast<int>(engine() % limit); };
  RegisterTable registers;
  for (int i = 0; i < 90; ++i) {
    const SharedBytesPlaced reg = in_arena(draw(200), 1 + draw(40), draw(2));
    registers.push_back(reg.form, reg.offset);
  }
  SharedBytes shared(registers, all_of(registers));
  std::vector<RegisterIndex> shown = all_of(registers);
  for (int round = 0; round < 300; ++round) {
    const RegisterIndex reg(draw(90));
    if (std::erase(shown, reg) > 0) {
      shared.hide(reg);
    } else {
      shared.show(reg);
      shown.insert(std::ranges::lower_bound(shown, reg), reg);
    }
    const RegisterIndex with(draw(90));
    ASSERT_EQ(shared.with(with), found_by_comparing(registers, shown, with)) << round;
  }
}

}  // namespace
}  // namespace tessera
