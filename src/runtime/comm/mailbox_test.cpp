#include "runtime/comm/mailbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "base/testing/waits.h"
#include "base/threads/worker.h"

namespace tessera {
namespace {

using std::chrono::steady_clock;

Message numbered(ActorId from, int64_t record) {
  return {Message::Kind::kReady, 0, 0, 0, record, from};
}

steady_clock::time_point in(std::chrono::milliseconds time) {
  return steady_clock::now() + time;
}

constexpr std::chrono::minutes kLong{3};
constexpr SpinPolicy kNone{};

TEST(Mailbox, GivesMessagesInTheOrderInWhichTheyCame) {
  Mailbox mailbox(2);
  Message message;
  EXPECT_FALSE(mailbox.take(message));
  for (int64_t record = 0; record < 10; record += 2) {  // around the ring
    mailbox.push(numbered(1, record));
    mailbox.push(numbered(1, record + 1));
    EXPECT_TRUE(mailbox.has_messages());
    for (int64_t expected : {record, record + 1}) {
      ASSERT_TRUE(mailbox.take(message));
      EXPECT_EQ(message.iteration, expected);
    }
  }
  EXPECT_FALSE(mailbox.has_messages());
}

TEST(Mailbox, RefusesAMessageForWhichThereIsNoRoom) {
  Mailbox mailbox(2);
  mailbox.push(numbered(1, 0));
  mailbox.push(numbered(1, 1));
  EXPECT_THROW(mailbox.push(numbered(1, 2)), InternalError);
}

TEST(Mailbox, AWaitEndsAtItsDeadline) {
  Mailbox mailbox(2);
  const StopState stop;
  EXPECT_FALSE(mailbox.wait(stop, kNone, in(std::chrono::milliseconds(1))));
  EXPECT_FALSE(mailbox.wait(stop, {.spins = 10, .yields = 10}, in(std::chrono::milliseconds(-1))));
  mailbox.push(numbered(1, 0));
  EXPECT_TRUE(
      mailbox.wait(stop, kNone, in(std::chrono::milliseconds(-1))));  // what is there is there
}

TEST(Mailbox, ASleepingOwnerIsRousedByAMessage) {
  Mailbox mailbox(2);
  const StopState stop;
  Worker other([&] {
    EXPECT_TRUE(comes_true([&] { return mailbox.is_asleep(); }));
    mailbox.push(numbered(1, 0));
  });
  EXPECT_TRUE(mailbox.wait(stop, kNone, in(kLong)));
  EXPECT_TRUE(mailbox.has_messages());
  other.join();
}

TEST(Mailbox, ASleepingOwnerIsRousedByTheStopState) {
  Mailbox mailbox(2);
  StopState stop;
  Worker other([&] {
    EXPECT_TRUE(comes_true([&] { return mailbox.is_asleep(); }));
    stop.fail({0, "", "", nullptr});
    mailbox.wake();
  });
  EXPECT_TRUE(mailbox.wait(stop, kNone, in(kLong)));
  EXPECT_FALSE(mailbox.has_messages());
  other.join();
}

/// Threads push as many messages as they have credits; the owner releases a credit with each
/// message that it takes.
void push_and_take(int threads, int64_t messages, SpinPolicy spin_policy) {
  constexpr int kCredits = 2;
  Mailbox mailbox(static_cast<size_t>(threads) * kCredits);
  const StopState stop;
  std::vector<std::atomic<int64_t>> taken(static_cast<size_t>(threads));
  std::vector<std::unique_ptr<Worker>> pushers;
  for (int from = 0; from < threads; ++from)
    pushers.push_back(std::make_unique<Worker>([&mailbox, &taken, from, messages] {
      for (int64_t record = 0; record < messages; ++record) {
        while (record - taken[from].load(std::memory_order_acquire) >= kCredits)
          std::this_thread::yield();
        mailbox.push(numbered(from, record));
      }
    }));
  for (int64_t count = 0; count < threads * messages; ++count) {
    Message message;
    while (!mailbox.take(message))
      ASSERT_TRUE(mailbox.wait(stop, spin_policy, in(kLong))) << "after " << count << " messages";
    ASSERT_EQ(message.iteration, taken[message.from].fetch_add(1, std::memory_order_acq_rel));
  }
  EXPECT_FALSE(mailbox.has_messages());
  for (const auto& pusher : pushers) pusher->join();
}

TEST(Mailbox, NoMessageOfManyThreadsIsLostAndThoseOfEachComeInOrder) {
  push_and_take(1, 5000, kNone);
  push_and_take(3, 2000, kNone);
  push_and_take(3, 2000, {.spins = 50, .yields = 2});
}

}  // namespace
}  // namespace tessera
