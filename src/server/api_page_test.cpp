// docs/reference/http-api.md against the program.
#include <fstream>
#include <set>

#include "server/server_fixture.h"

namespace tessera {
namespace {

std::string page() {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/docs/reference/http-api.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(ServerTest, ApiPageListsEveryMetricWithItsKind) {
  stub.info.most_drafts = 3;
  stub.info.dcp_ranks = 2;
  const auto collectives = std::make_shared<CollectiveTimes>();
  collectives->count(Collective::kAllReduce, std::chrono::microseconds(7));
  stub.info.collectives = {{.rank = 0, .group = "tp", .times = collectives}};
  stub.info.all_reduces = {{.bytes = 14336, .seconds = 1e-5}};
  start("x");
  chat("");
  std::set<std::string> served;
  std::istringstream lines(get("/metrics").body);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) served.insert(line.substr(7));
  }
  std::set<std::string> listed;
  std::istringstream rows(page());
  for (std::string row; std::getline(rows, row);) {
    for (const char* prefix : {"| `vllm:", "| `tessera:", "| `process_"}) {
      if (!row.starts_with(prefix)) continue;
      const std::size_t name_end = row.find('`', 3);
      const std::size_t kind_end = row.find(" |", name_end + 4);
      listed.insert(row.substr(3, name_end - 3) + " " + row.substr(name_end + 4, kind_end - name_end - 4));
    }
  }
  EXPECT_EQ(listed, served);
}

// Each field that the page calls refused is refused, and by its name.
TEST_F(ServerTest, ApiPageRefusedFieldsAreRefusedByName) {
  start("x");
  const std::string text = page();
  std::size_t fields = 0;
  for (std::size_t at = 0; (at = text.find("Refused by name", at)) != std::string::npos;) {
    const std::size_t list = text.find(':', at);
    const std::size_t end = text.find("\n\n", at);
    for (at = text.find('`', list); at < end; at = text.find('`', text.find('`', at + 1) + 1)) {
      const std::string name = text.substr(at + 1, text.find('`', at + 1) - at - 1);
      const bool is_flag = name == "use_beam_search" || name == "return_tokens_as_token_ids";
      const Answer answer = chat("\"" + name + "\":" + (is_flag ? "true" : "\"x\""));
      EXPECT_EQ(answer.status, 400) << name;
      EXPECT_EQ(answer.json()["error"]["param"], name);
      ++fields;
    }
    at = end;
  }
  EXPECT_GE(fields, 17U);
}

}  // namespace
}  // namespace tessera
