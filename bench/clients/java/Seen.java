import java.util.List;

/** What the driver told the program: one line of JSON. */
final class Seen {
    private final StringBuilder line = new StringBuilder();

    Seen(int step, long thread, String word) {
        line.append("{\"step\":").append(step).append(",\"thread\":").append(thread);
        put("word", word);
    }

    Seen put(String key, String text) {
        line.append(",\"").append(key).append("\":");
        quote(text);
        return this;
    }

    Seen put(String key, long number) {
        line.append(",\"").append(key).append("\":").append(number);
        return this;
    }

    /** Bound values as MySQL prints them, bytes in hex behind \x. */
    Seen params(List<String> params) {
        line.append(",\"params\":[");
        String separator = "";
        for (String p : params) {
            line.append(separator);
            quote(p);
            separator = ",";
        }
        line.append(']');
        return this;
    }

    void say() {
        System.out.println(line.append('}'));
        System.out.flush();
    }

    private void quote(String text) {
        if (text == null) {
            line.append("null");
            return;
        }
        line.append('"');
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                line.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                line.append(String.format("\\u%04x", (int) c));
            } else {
                line.append(c);
            }
        }
        line.append('"');
    }
}
