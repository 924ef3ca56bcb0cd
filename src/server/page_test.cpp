// What the server sends for "/", and the stream that the page asks for.
#include "server/server_fixture.h"

namespace tessera {
namespace {

TEST_F(ServerTest, PageIsOneDocumentUnderAPolicyWithoutExceptions) {
  options.api_keys = {"secret"};
  start("x");
  const Answer page = get("/");  // it holds nothing that a key protects, and asks for one itself
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.header("Content-Type"), "text/html; charset=utf-8");
  EXPECT_THAT(page.body, testing::StartsWith("<!doctype html>"));
  for (const char* outside :
       {"http://", "https://", "src=", "@import", "innerHTML", "style=\"", "onclick="}) {
    std::string body = page.body;
    const std::string svg = "http://www.w3.org/2000/svg";  // a name, which is not fetched
    for (std::size_t at; (at = body.find(svg)) != std::string::npos;) body.erase(at, svg.size());
    EXPECT_EQ(body.find(outside), std::string::npos) << outside;
  }
  const std::string policy = page.header("Content-Security-Policy");
  EXPECT_THAT(policy, HasSubstr("default-src 'none'; script-src 'sha256-"));
  EXPECT_THAT(policy, HasSubstr("require-trusted-types-for 'script'"));
  EXPECT_THAT(policy, testing::Not(HasSubstr("unsafe")));
  EXPECT_EQ(page.header("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(request("POST", "/", "{}").status, 405);
}

TEST_F(ServerTest, PageCanBeLeftOut) {
  options.page = false;
  start("x");
  EXPECT_EQ(get("/").status, 404);
  EXPECT_EQ(get("/health").status, 200);
}

TEST_F(ServerTest, PageIsFoundBelowTheRootPath) {
  options.root_path = "/tessera";
  start("x");
  EXPECT_EQ(get("/tessera/").status, 200);
  EXPECT_EQ(get("/").status, 200);
}

// [text, drafted] of the chunks that have text.
std::vector<std::pair<std::string, bool>> pieces_of(const Answer& answer, bool is_chat) {
  std::vector<std::pair<std::string, bool>> out;
  for (const Json& event : answer.events()) {
    const Json& choice = event["choices"][0];
    const std::string text = is_chat ? choice["delta"].value("content", "") : choice.value("text", "");
    if (!text.empty()) out.emplace_back(text, choice.at("drafted").get<bool>());
  }
  return out;
}

TEST_F(ServerTest, ReportedDraftsComeTokenByToken) {
  stub.bundle = 3;
  stub.drafts = 2;
  start("one two three four");
  const auto chat_pieces = pieces_of(chat(R"("stream":true,"report_drafts":true)"), true);
  const auto text_pieces =
      pieces_of(post("/v1/completions", R"({"prompt":"x","stream":true,"report_drafts":true})"), false);
  EXPECT_EQ(chat_pieces, text_pieces);
  std::string text;
  std::size_t at = 0;
  for (const auto& [piece, drafted] : chat_pieces) {
    text += piece;
    EXPECT_EQ(drafted, at++ % 3 < 2) << piece;
  }
  EXPECT_EQ(text, "one two three four");
  EXPECT_EQ(at, test_tokenizer().encode(text, ControlTokens::kAsText)->size());
}

TEST_F(ServerTest, TheTokenThatEndsAnAnswerIsNoDraftOfItsText) {
  stub.bundle = 8;
  stub.drafts = 7;
  start("one<|im_end|>");
  const auto events = chat(R"("stream":true,"report_drafts":true)").events();
  EXPECT_EQ(events.back()["choices"][0]["finish_reason"], "stop");
  std::string text;
  for (const auto& [piece, drafted] : pieces_of(chat(R"("stream":true,"report_drafts":true)"), true)) {
    text += piece;
    EXPECT_TRUE(drafted);
  }
  EXPECT_EQ(text, "one");
}

TEST_F(ServerTest, DraftsAreReportedOnlyWhenAskedFor) {
  stub.bundle = 3;
  stub.drafts = 2;
  start("one two three four");
  for (const Json& event : chat(R"("stream":true)").events())
    EXPECT_FALSE(event["choices"][0].contains("drafted"));
  const Answer refused = chat(R"("report_drafts":true)");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.json()["error"]["param"], "report_drafts");
}

}  // namespace
}  // namespace tessera
