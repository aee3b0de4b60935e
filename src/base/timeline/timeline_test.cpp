#include "base/timeline/timeline.h"

#include <gtest/gtest.h>

#include "base/files/document.h"

namespace tessera {
namespace {

/// Rank 0 computes y from 1 ms to 3 ms. Rank 2 waits for it from 0 on, takes it at 3.5 ms and works
/// until 6 ms.
Timeline two_ranks() {
  Timeline timeline;
  timeline.tracks = {
      {0, "acts", {{Span::Kind::kAct, "y \"quoted\"", 5, 1, Seconds(0.001), Seconds(0.003)}}},
      {2,
       "acts",
       {{Span::Kind::kWait, "z", 5, -1, Seconds(0), Seconds(0.0035)},
        {Span::Kind::kAct, "z", 5, -1, Seconds(0.004), Seconds(0.006)}}}};
  timeline.messages = {
      {TimedMessage::Kind::kReady, "y", 0, 1, Seconds(0.003), Seconds(0.0035), Seconds(0.004)},
      {TimedMessage::Kind::kReleased, "y", 1, 0, Seconds(0.006), Seconds(0.007), Seconds(0.007)}};
  timeline.lost = 3;
  return timeline;
}

std::vector<Document> events_of(const Document& trace, const std::string& phase) {
  std::vector<Document> found;
  for (const Document& event : trace.find("traceEvents")->as_list())
    if (event.find("ph")->as_string() == phase) found.push_back(event);
  return found;
}

TEST(TraceJson, ARankIsAProcessAndAStreamIsAThread) {
  const Document trace = parse_json(to_trace_json(two_ranks()), "trace");
  std::vector<std::string> names;
  for (const Document& event : events_of(trace, "M"))
    if (event.find("name")->as_string() != "process_sort_index")
      names.push_back(std::to_string(event.find("pid")->as_int()) + "/" +
                      std::to_string(event.find("tid")->as_int()) + " " +
                      event.find("args")->find("name")->as_string());
  EXPECT_EQ(names, (std::vector<std::string>{"0/0 rank 0", "0/0 acts", "2/1 rank 2", "2/1 acts"}));
}

TEST(TraceJson, ASpanIsASliceWithItsBeginAndItsLengthInMicroseconds) {
  const std::vector<Document> slices =
      events_of(parse_json(to_trace_json(two_ranks()), "trace"), "X");
  ASSERT_EQ(slices.size(), 3U);
  EXPECT_EQ(slices[0].find("name")->as_string(), "y \"quoted\"");
  EXPECT_EQ(slices[0].find("cat")->as_string(), "act");
  EXPECT_DOUBLE_EQ(slices[0].find("ts")->as_double(), 1000);
  EXPECT_DOUBLE_EQ(slices[0].find("dur")->as_double(), 2000);
  EXPECT_EQ(slices[0].find("args")->find("iteration")->as_int(), 5);
  EXPECT_EQ(slices[0].find("args")->find("micro_batch")->as_int(), 1);
  EXPECT_EQ(slices[1].find("cat")->as_string(), "wait");
  EXPECT_EQ(slices[1].find("args")->find("micro_batch"), nullptr) << "it is done once a step";
}

TEST(TraceJson, AMessageIsAFlowFromTheActThatMadeItsRegisterToTheOneThatReadsIt) {
  const Document trace = parse_json(to_trace_json(two_ranks()), "trace");
  const std::vector<Document> starts = events_of(trace, "s"), ends = events_of(trace, "f");
  ASSERT_EQ(starts.size(), 1U);
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(starts[0].find("id")->as_int(), ends[0].find("id")->as_int());
  EXPECT_EQ(starts[0].find("pid")->as_int(), 0);
  EXPECT_EQ(ends[0].find("pid")->as_int(), 2);
  EXPECT_DOUBLE_EQ(starts[0].find("ts")->as_double(), 2999.999)
      << "in the act that made it: a nanosecond before its end";
  EXPECT_DOUBLE_EQ(ends[0].find("ts")->as_double(), 4000)
      << "at the begin of the act that reads it";
  EXPECT_EQ(ends[0].find("bp")->as_string(), "e") << "binds to the slice around it";
}

TEST(TraceJson, ASlotThatComesBackIsAnInstant) {
  const std::vector<Document> instants =
      events_of(parse_json(to_trace_json(two_ranks()), "trace"), "i");
  ASSERT_EQ(instants.size(), 1U);
  EXPECT_EQ(instants[0].find("name")->as_string(), "release: y");
  EXPECT_EQ(instants[0].find("pid")->as_int(), 0);
  EXPECT_DOUBLE_EQ(instants[0].find("ts")->as_double(), 7000);
}

TEST(TraceJson, SaysHowManyEventsWereLost) {
  EXPECT_EQ(parse_json(to_trace_json(two_ranks()), "trace")
                .find("otherData")
                ->find("lost_events")
                ->as_int(),
            3);
}

}  // namespace
}  // namespace tessera
