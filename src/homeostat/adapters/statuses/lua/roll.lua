-- Notes that somebody looked; answers who is due, each with what a verdict needs, or else the next date; false if
-- nobody listened for ARGV[3] ms: this server was out of reach, or came back with what it had once, or with nothing.
if not redis.call('SET', 'agent:listening', '', 'XX', 'PX', ARGV[3]) then
    return false
end
redis.call('SET', 'agent:looked', ARGV[1])
local due = redis.call('ZRANGEBYSCORE', 'agent:due', '-inf', ARGV[1], 'WITHSCORES', 'LIMIT', 0, ARGV[2])
local silent = {}
for index = 1, #due, 2 do
    local known = redis.call('HMGET', 'agent:presence:' .. due[index], 'presence', 'counted_ms', 'interval_ms')
    silent[#silent + 1] = {
        due[index], known[1], tonumber(known[2] or 0), tonumber(known[3] or 0), tonumber(due[index + 1])
    }
end
local following = false
if #due == 0 then
    following = tonumber(redis.call('ZRANGE', 'agent:due', 0, 0, 'WITHSCORES')[2]) or false
end
return cmsgpack.pack({silent, following})
