#include "ir/models/graph_file.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/files/file.h"
#include "base/testing/error.h"
#include "base/testing/test_folder.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "ir/models/model.h"

namespace tessera {
namespace {

ModelConfig small_model(const std::string& kind) {
  ModelConfig config;
  config.kind = kind;
  config.context = 8;
  config.layers = kind == "unet" ? 2 : 1;
  config.width = 8;
  config.heads = 2;
  config.image = {1, 16, 16};
  return config;
}

std::string refusal_of(const std::string& text) {
  return error_testing::message_of([&] { parse_graph_file(text, "net.graph"); });
}

const std::string kGraphHead = "tessera graph 1\n",
                  kTrainingHead = "== training\ninput x: f32[$rows,4]\n";

TEST(GraphFile, IsTheNetworkAgain) {
  for (const std::string& kind : model_kinds()) {
    if (kind == "graph") continue;
    const ModelConfig config = small_model(kind);
    const Network network = network_of(config);
    const GraphModel read = parse_graph_file(graph_file_text(config), "net.graph");
    for (const ForwardPurpose purpose :
         {ForwardPurpose::kTraining, ForwardPurpose::kEvaluation, ForwardPurpose::kPrediction})
      for (const int64_t rows : {4, 6})
        EXPECT_EQ(to_text(forward_graph(read.network, purpose, rows, 7)),
                  to_text(forward_graph(network, purpose, rows, 7)))
            << kind;
    EXPECT_EQ(to_text(training_graph(read.network, {}, 2, 3)),
              to_text(training_graph(network, {}, 2, 3)));
    EXPECT_EQ(read.network.count, network.count);
    EXPECT_EQ(read.network.targets, network.targets);
    EXPECT_EQ(read.network.ignored_target, network.ignored_target);
    EXPECT_EQ(read.network.loss_is_entropy, network.loss_is_entropy);
    EXPECT_EQ(read.network.metrics.size(), network.metrics.size());
    EXPECT_EQ(graph_file_text(read.network, read.sizes), read.text);
    ASSERT_EQ(read.network.language.has_value(), network.language.has_value());
    if (!network.language) continue;
    for (int64_t used = 1; used <= config.context; ++used) {
      EXPECT_EQ(read.network.language->next_token(used).first,
                network.language->next_token(used).first);
      EXPECT_EQ(read.network.language->next_token(used).row,
                network.language->next_token(used).row);
    }
    if (!network.language->can_decode) continue;
    EXPECT_EQ(to_text(forward_graph(read.network, ForwardPurpose::kDecoding, 1, 0)),
              to_text(forward_graph(network, ForwardPurpose::kDecoding, 1, 0)));
  }
}

TEST(GraphFile, HoldsGroupsAndAdapters) {
  Network network = network_of(small_model("gpt"));
  network.groups = {{"*.bias", 0.5, 0.25}, {"head.*", 2, {}}};
  network.lora = {2, 8, {"*.attn.q.weight"}};
  network.trained = {"*.lora_*"};
  const GraphModel read = parse_graph_file(graph_file_text(network, {}), "net.graph");
  ASSERT_EQ(read.network.groups.size(), 2U);
  EXPECT_EQ(read.network.groups[0].pattern, "*.bias");
  EXPECT_EQ(read.network.groups[0].rate, 0.5);
  EXPECT_EQ(read.network.groups[0].weight_decay, 0.25);
  EXPECT_EQ(read.network.groups[1].weight_decay, std::nullopt);
  EXPECT_EQ(read.network.lora.rank, 2);
  EXPECT_EQ(read.network.lora.targets, network.lora.targets);
  EXPECT_EQ(read.network.trained, network.trained);
}

TEST(GraphFile, OfACppNetworkIsWrittenAndRead) {
  const Network network{.forward = [](Forward& forward) {
    Builder& b = forward.builder();
    const ValueId x = forward.input("x", {DType::kF32, {4}});
    const double share = 1.0 / static_cast<double>(forward.rows());
    const ValueId sum = b.reduce_sum(b.mul(x, x), {0, 1});
    forward.output("loss", b.mul_scalar(sum, share));
  }};
  const TestFolder folder;
  save_network(network, folder / "net.graph");
  const std::string text = read_file(folder / "net.graph");
  EXPECT_NE(text.find("input x: f32[$rows,4]"), std::string::npos) << text;
  EXPECT_NE(text.find("$per_row*1.0"), std::string::npos) << text;
  const Network read = load_network(folder / "net.graph").network;
  EXPECT_EQ(to_text(forward_graph(read, ForwardPurpose::kTraining, 7, 0)),
            to_text(forward_graph(network, ForwardPurpose::kTraining, 7, 0)));
}

TEST(GraphFile, WhatDependsOnRowsInAnotherWayIsRefused) {
  const Network network{.forward = [](Forward& forward) {
    Builder& b = forward.builder();
    const ValueId x = forward.input("x", {DType::kF32, {4}});
    const auto rows = static_cast<double>(forward.rows());
    forward.output("loss", b.reduce_sum(b.mul_scalar(x, 1 / (rows * rows)), {0, 1}));
  }};
  EXPECT_THROW(graph_file_text(network, {}), UserError);
}

TEST(GraphFile, MalformedFilesAreRefused) {
  EXPECT_NE(refusal_of("tessera graph 2\n").find("net.graph begins with 'tessera graph 2'"),
            std::string::npos);
  EXPECT_NE(refusal_of(kGraphHead).find("has no graph for training"), std::string::npos);
  EXPECT_NE(refusal_of(kGraphHead + "los = \"x\"\n== training\n").find("did you mean 'loss'"),
            std::string::npos);
  EXPECT_NE(refusal_of(kGraphHead + "== trainin\n").find("line 2"), std::string::npos);
  EXPECT_NE(
      refusal_of(kGraphHead + kTrainingHead + "y = exxp(x): f32[$rows,4]\n").find("'exxp' is not"),
      std::string::npos);
  EXPECT_NE(refusal_of(kGraphHead + kTrainingHead + "y = exp(x): f32[$rows,5]\n")
                .find("'y' is declared as f32[4,5]"),
            std::string::npos);
  EXPECT_NE(refusal_of(kGraphHead + kTrainingHead + "y = exp(x): f32[$row,4]\n").find("symbol"),
            std::string::npos);
  EXPECT_NE(refusal_of(kGraphHead + kTrainingHead + "y = reduce(x): f32[]\n").find("'y' is no"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
