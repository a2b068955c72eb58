-- Verdicts, each on an agent whose date is still the one it was judged by; answers one letter each: + or -.
local marks = cmsgpack.unpack(ARGV[1])
local answers = {}
for index, mark in ipairs(marks) do
    local id, judged, verdict, since, due = unpack(mark)
    if tonumber(redis.call('ZSCORE', 'agent:due', id) or -1) == judged then
        redis.call('HSET', 'agent:presence:' .. id, 'presence', verdict, 'since_ms', since)
        redis.call('ZADD', 'agent:due', due, id)
        redis.call('SREM', 'agent:stale', id)
        redis.call('SREM', 'agent:dead', id)
        redis.call('SADD', 'agent:' .. verdict, id)
        answers[index] = '+'
    else
        answers[index] = '-'
    end
end
return table.concat(answers)
