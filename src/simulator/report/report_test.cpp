#include "simulator/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/cluster/cluster_file.h"
#include "compiler/lower/lower.h"
#include "ir/ops/builder.h"
#include "simulator/report/internal/html.h"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kHostile = "\"><script>alert('x')</script>&\x01";

/// A product of two matrices whose rows two ranks share; the sum of the results is exchanged.
struct Predicted {
  explicit Predicted(const std::string& name, int ranks = 2)
      : cluster(parse_cluster_line(std::to_string(ranks) + "xa100-80g")) {
    Graph graph;
    Builder builder(graph);
    const ValueId x = builder.input(name, {DType::kF32, {64, 32}});
    const ValueId w = builder.input("w", {DType::kF32, {32, 16}});
    graph.add_output("y", builder.dot(x, w, "mk,kn->mn", "y"));
    const auto mesh = std::make_shared<const Mesh>(Shape{ranks}, std::vector<std::string>{"tp"});
    tasks = std::make_shared<const TaskGraph>(
        compile(graph, mesh, {shard_op("y", "[P(None, \"tp\"), P(\"tp\")] -> [P()]")}).tasks);
    deployment = identity_mapping(cluster, ranks);
    prediction = predict_step(tasks, deployment, {.explains = true});
  }

  ReportedPlan plan(const std::string& name) const {
    return {.name = name,
            .summary = "of " + name,
            .tasks = tasks.get(),
            .deployment = &deployment,
            .prediction = &prediction,
            .model_flops = Flops(1e6),
            .units = 64};
  }

  Cluster cluster;
  std::shared_ptr<const TaskGraph> tasks;
  Deployment deployment;
  StepPrediction prediction;
};

/// "" when each tag that is opened is closed in order, otherwise the first offence.
std::string unbalanced(const std::string& page) {
  std::vector<std::string> open;
  for (size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    const size_t end = page.find('>', at);
    if (end == std::string::npos) return "a tag without end";
    const std::string tag = page.substr(at + 1, end - at - 1);
    if (tag.starts_with("!") || tag.ends_with("/")) continue;
    const std::string name = tag.substr(0, tag.find(' '));
    if (!name.starts_with("/"))
      open.push_back(name);
    else if (open.empty() || "/" + open.back() != name)
      return name + " closes " + (open.empty() ? "nothing" : open.back());
    else
      open.pop_back();
  }
  return open.empty() ? "" : open.back() + " stays open";
}

TEST(Report, IsOneBalancedPageWithoutNetworkAndScripts) {
  const Predicted predicted("x");
  const std::string page = report_html("gpt.toml", {predicted.plan("tp2")});
  EXPECT_EQ(unbalanced(page), "");
  for (const char* word : {"http:", "https:", "//", "<script", "url(", "@import", "<link", "<img"})
    EXPECT_THAT(page, Not(HasSubstr(word)));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
}

TEST(Report, HasASectionForEachQuestion) {
  const Predicted predicted("x");
  ReportedPlan plan = predicted.plan("tp2");
  plan.shardings.push_back({"blocks.{0..3}.w", "f32[32@tp, 16]", "f32[16, 16]", Bytes(1024)});
  plan.measured = {.step = Seconds(1), .peak = predicted.prediction.peak_bytes()};
  const std::string page = report_html("gpt.toml", {plan});
  for (const char* title :
       {"Timeline of a step", "Critical path", "Memory over time", "Communication",
        "Ranks on the devices", "Shardings", "Predicted and measured"})
    EXPECT_THAT(page, HasSubstr("<h3>" + std::string(title) + "</h3>"));
  EXPECT_THAT(page, HasSubstr("fits, "));
  EXPECT_THAT(page, HasSubstr("blocks.{0..3}.w"));
  // The predicted step is far below the measured one of a second; the peak is the same.
  EXPECT_THAT(page, HasSubstr("-100.0%"));
  EXPECT_THAT(page, HasSubstr("+0.0%"));
}

TEST(Report, EscapesNamesEverywhere) {
  const Predicted predicted("x");
  ReportedPlan plan = predicted.plan(kHostile);
  plan.shardings.push_back({kHostile, kHostile, kHostile, Bytes(1)});
  const std::string page = report_html(kHostile, {plan});
  EXPECT_EQ(unbalanced(page), "");
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("\x01")));
  EXPECT_THAT(page, HasSubstr("&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp; "));
}

TEST(Report, HasAColumnForEachPlan) {
  const Predicted one("x", 1), two("x", 2);
  const std::string page = report_html("gpt.toml", {one.plan("serial"), two.plan("tp2")});
  EXPECT_EQ(unbalanced(page), "");
  EXPECT_THAT(page, HasSubstr("<th class=\"number\">serial</th><th class=\"number\">tp2</th>"));
  EXPECT_THAT(page, HasSubstr("The ranks exchange nothing."));
  EXPECT_THAT(page, HasSubstr("from rank 0 to rank 1: "));
}

TEST(Report, SaysWhyTheFirstPlanIsSlowerOrFaster) {
  const Predicted small("x"), large("x", 4);
  const std::string page = report_html("t", {small.plan("dp2"), large.plan("dp4")});
  EXPECT_TRUE(page.find("dp2 takes ") != std::string::npos &&
              page.find(" than dp4: ") != std::string::npos)
      << page;
  EXPECT_THAT(report_html("t", {small.plan("a"), small.plan("b")}),
              HasSubstr("a takes as long as b."));
  EXPECT_THAT(report_html("t", {small.plan("a")}), Not(HasSubstr(" takes ")));
}

TEST(Report, TheMatrixOfBytesHasAScaleAndNumbers) {
  const Predicted predicted("x");
  const std::string page = report_html("t", {predicted.plan("dp2")});
  EXPECT_THAT(page, HasSubstr("class=\"heat\""));
  EXPECT_THAT(page, HasSubstr("class=\"label\""));
  EXPECT_THAT(page, HasSubstr("min-width:")) << "its units are pixels";
}

// The letters of drawings have 13 units, and at the smallest width 11 pixels and more.
TEST(Report, LettersOfDrawingsAreLargeEnoughOnANarrowPage) {
  EXPECT_GE(13 * kMinDrawingPixels / kDrawingWidth, 11);
  const Predicted predicted("x");
  EXPECT_THAT(report_html("t", {predicted.plan("dp2")}),
              HasSubstr("min-width: " + std::to_string(int(kMinDrawingPixels)) + "px"));
}

TEST(Report, AChoiceStandsAboveThePlansWithItsTables) {
  const Predicted predicted("x");
  const ReportedChoice choice{
      .verdict = std::string("the verdict ") + kHostile,
      .fits = false,
      .notes = {"a note of the choice"},
      .tables = {{"Ranking", {"plan", "step"}, "lr", {{kHostile, "1 ms"}, {"tp2", "2 ms"}}},
                 {"Nothing", {"plan"}, "l", {}}}};
  const std::string page = report_html("gpt.toml", {predicted.plan("tp2")}, choice);
  EXPECT_EQ(unbalanced(page), "");
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, HasSubstr("<p class=\"bad\">the verdict "));
  EXPECT_THAT(page, HasSubstr("<td>tp2</td><td class=\"number\">2 ms</td>"));
  EXPECT_THAT(page, Not(HasSubstr("Nothing")));
  EXPECT_LT(page.find("a note of the choice"), page.find("<h3>Ranking</h3>"));
  EXPECT_LT(page.find("<h3>Ranking</h3>"), page.find("<article>"));
}

TEST(Report, DrawsEachDeviceWithItsRanks) {
  const Predicted predicted("x", 4);
  const std::string page = report_html("gpt.toml", {predicted.plan("tp4")});
  for (const char* text : {"n0/0: rank 0, stage 0", "n0/3: rank 3, stage 0"})
    EXPECT_THAT(page, HasSubstr(text));
}

TEST(Report, StaysSmallWithManyRanks) {
  const Predicted few("x", 4), many("x", 32);
  const size_t small = report_html("a", {few.plan("tp4")}).size();
  EXPECT_LT(report_html("a", {many.plan("tp32")}).size(), small + size_t{32} * 32 * 250)
      << "a cell for each pair of ranks, and little else";
}

TEST(Html, EscapesWhatXmlReserves) {
  EXPECT_EQ(escaped("a<b>&\"'\n"), "a&lt;b&gt;&amp;&quot;&#39; ");
  EXPECT_EQ(escaped_lines("a<\nb\n"), "a&lt;\nb\n");
}

}  // namespace
}  // namespace tessera
