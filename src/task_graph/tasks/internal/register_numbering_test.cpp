#include "task_graph/tasks/internal/register_numbering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "task_graph/tasks/internal/register_table.h"

namespace tessera {
namespace {

constexpr RegisterFormIndex kWeight(0), kGradient(1), kSum(2), kCount(3), kRows(4);

/// A weight, its gradient and the sum of that, a count that is the same in each, and an input.
RegisterNumbering of_three_micro_batches() {
  return {3, {Repeats::kOnce, Repeats::kEach, Repeats::kSum, Repeats::kSame, Repeats::kInput}};
}

TEST(RegisterNumbering, HasARegisterOfEachMicroBatchAndNoSumInTheFirstOne) {
  const RegisterNumbering numbering = of_three_micro_batches();
  EXPECT_EQ(numbering.size(), 1 + 3 + 2 + 3 + 3);
  for (RegisterFormIndex form : {kWeight, kGradient, kSum, kCount, kRows}) {
    int micro_batch = form == kSum ? 1 : 0;
    for (RegisterIndex reg : numbering.at(form)) {
      EXPECT_EQ(numbering.form_of(reg), form);
      EXPECT_EQ(numbering.micro_batch_of(reg), micro_batch);
      if (form != kWeight) {
        EXPECT_EQ(numbering.written(form, micro_batch), reg);
      }
      ++micro_batch;
    }
  }
  EXPECT_EQ(numbering.written(kWeight, -1), numbering.whole(kWeight));
}

TEST(RegisterNumbering, ReadsTheOwnMicroBatchTheFirstOneOrTheWhole) {
  const RegisterNumbering numbering = of_three_micro_batches();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(numbering.read(kGradient, i), numbering.written(kGradient, i));
    EXPECT_EQ(numbering.read(kWeight, i), numbering.written(kWeight, -1));
    EXPECT_EQ(numbering.read(kCount, i), numbering.written(kCount, 0));
  }
  EXPECT_EQ(numbering.read(kSum, -1), numbering.written(kSum, 2)) << "it is complete";
  EXPECT_THROW(numbering.read(kGradient, -1), InternalError);
  EXPECT_THROW(numbering.whole(kGradient), InternalError);
}

TEST(RegisterNumbering, ASumBeginsWithTheFirstOperand) {
  const RegisterNumbering numbering = of_three_micro_batches();
  EXPECT_EQ(numbering.sum_before(kSum, kGradient, 1), numbering.written(kGradient, 0));
  EXPECT_EQ(numbering.sum_before(kSum, kGradient, 2), numbering.written(kSum, 1));
  EXPECT_FALSE(numbering.may_be_in_variable(numbering.written(kSum, 1)));
  EXPECT_TRUE(numbering.may_be_in_variable(numbering.written(kSum, 2)));
}

TEST(RegisterTable, ShowsTheNumberTheRowsAndTheStorageOfEachMicroBatch) {
  const char mark = NameTemplate::kMark;
  RegisterForm gradient;
  gradient.name = std::string("dw #") + mark;
  gradient.micro_batch = {kEachMicroBatch, -1, 0};
  RegisterForm sum;
  sum.name = "dw";
  sum.storage = Register::Storage::kVariable;
  sum.variable = 0;
  RegisterForm rows;
  rows.name = std::string("x #") + mark;
  rows.type = TensorType{DType::kF32, {4, 2}};
  rows.micro_batch = {kEachMicroBatch, 0, 0};
  RegisterNumbering numbering(3, {Repeats::kEach, Repeats::kSum, Repeats::kInput});
  IndexedVector<RegisterIndex, int64_t> offsets;
  for (int i = 0; i < numbering.size(); ++i) offsets.push_back(64 * i);
  const RegisterTable table({gradient, sum, rows}, numbering, offsets);

  const Register second = table[numbering.written(RegisterFormIndex(0), 1)];
  EXPECT_EQ(second.name, "dw #1");
  EXPECT_EQ(second.micro_batch, (MicroBatch{1, -1, 0}));
  EXPECT_EQ(second.offset, 64);
  const Register so_far = table[numbering.written(RegisterFormIndex(1), 1)];
  EXPECT_EQ(so_far.name, "dw.sum #1");
  EXPECT_EQ(so_far.micro_batch, (MicroBatch{1, -1, 0}));
  EXPECT_EQ(so_far.storage, Register::Storage::kArena);
  const Register complete = table[numbering.written(RegisterFormIndex(1), 2)];
  EXPECT_EQ(complete.name, "dw");
  EXPECT_EQ(complete.micro_batch, MicroBatch());
  EXPECT_EQ(complete.storage, Register::Storage::kVariable);
  const Register last = table[numbering.written(RegisterFormIndex(2), 2)];
  EXPECT_EQ(last.name, "x #2");
  EXPECT_EQ(last.micro_batch, (MicroBatch{2, 0, 8}));
}

}  // namespace
}  // namespace tessera
