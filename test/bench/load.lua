-- wrk's script. Arguments: a file of requests, separated by zero bytes, the first cursor or "", the first serial, and the number
-- of connections.
local requests, turn, values = {}, 0, {}
local unopened

-- Time from opening the connections to the first request. Node.js accepts one connection per iteration of its event loop, so under
-- load the last of many would wait long, and p99 would measure that.
local CONNECT_MS = 200

function init(args)
  for text in io.open(args[1]):read("*a"):gmatch("[^%z]+") do requests[#requests + 1] = text end
  values.cursor, values.serial, unopened = args[2], tonumber(args[3]), tonumber(args[4])
  if values.cursor ~= "" then response = follow end
end

-- Called before each request of each connection.
function delay()
  if unopened == 0 then return 0 end
  unopened = unopened - 1
  return CONNECT_MS
end

function request()
  turn = turn % #requests + 1
  values.serial = values.serial + 1
  return (requests[turn]:gsub("{(%l+)}", values))
end

function follow(status, headers, body)
  values.cursor = body:match('"nextCursor":"(.-)"') or values.cursor
end

function done(summary, latency)
  local e = summary.errors
  print(string.format('{"requests":%d,"duration":%d,"errors":%d,"p50":%d,"p99":%d,"p999":%d}',
    summary.requests, summary.duration - 1000 * CONNECT_MS, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
